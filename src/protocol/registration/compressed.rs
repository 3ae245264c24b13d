//! Bodies in a zlib stream: a sequence of parts, each after its length or count (4 bytes).
//!
//! ```text
//! data version (JSON) │ n │ n × topic (text) │ filter servers (JSON) │ since 5.0.0: n │ n × static-topic info (JSON)
//! topic: name readQueues writeQueues perm filterType attributes
//! ```
//! The parser reads each part as it is inflated. So memory grows neither with the whole body nor with a claimed length.

use super::{Body, RegistrationLimits, plain, shared};
use flate2::read::ZlibDecoder;
use std::io::{Read, Take};
use storage::command::{QueueConfig, TopicConfig};

/// Largest part, bytes: the largest frame, which limits plain bodies.
const PART_MAX_BYTES: u32 = 16 << 20;

/// Parses a body. If it should end with static-topic infos, they must be there.
pub(super) fn parse(
    body: &[u8],
    with_static_topics: bool,
    limits: RegistrationLimits,
) -> Result<Body, &'static str> {
    let mut parts = Parts { stream: ZlibDecoder::new(body).take(limits.inflated_bytes), part: Vec::new() };
    let data_version = plain::parse_data_version(parts.next()?)?.unwrap_or_default();
    let mut parsed = Body { data_version, ..Body::default() };
    for _ in 0..parts.count(limits.topics)? {
        parsed.topics.push(topic(parts.next()?)?);
    }
    parsed.filter_servers = plain::parse_filter_servers(parts.next()?)?;
    if with_static_topics {
        for _ in 0..parts.count(limits.topics)? {
            let info = plain::parse_static_info(parts.next()?)?.ok_or("a static topic that is null")?;
            let topic = info.topic.clone().ok_or("a static topic without a name")?;
            parsed.static_infos.push((topic, info));
        }
    }
    Ok(parsed)
}

/// How many bytes a body has when it is inflated; at most one more than `bytes_max`. It takes no memory for them.
///
/// # Errors
/// The body is no zlib stream.
pub(super) fn inflated_bytes(body: &[u8], bytes_max: u64) -> Result<u64, &'static str> {
    let mut stream = ZlibDecoder::new(body).take(bytes_max.saturating_add(1));
    std::io::copy(&mut stream, &mut std::io::sink()).map_err(|_| "no zlib stream")
}

/// The stream, part by part.
struct Parts<'a> {
    stream: Take<ZlibDecoder<&'a [u8]>>,
    part: Vec<u8>,
}

impl Parts<'_> {
    /// The next part.
    fn next(&mut self) -> Result<&[u8], &'static str> {
        let length = self.number()?;
        if length > PART_MAX_BYTES {
            return Err("a part that is too long");
        }
        self.part.clear();
        let read = (&mut self.stream).take(length.into()).read_to_end(&mut self.part);
        match read {
            Ok(read) if read == length as usize => Ok(&self.part),
            Ok(_) => Err("the stream is cut short, or too long"),
            Err(_) => Err("no zlib stream"),
        }
    }

    /// The number of parts that follow.
    fn count(&mut self, max: usize) -> Result<u32, &'static str> {
        let count = self.number()?;
        if count as usize > max { Err("too many topics") } else { Ok(count) }
    }

    /// A length or count; a negative one reads as a large one.
    fn number(&mut self) -> Result<u32, &'static str> {
        let mut bytes = [0; 4];
        self.stream
            .read_exact(&mut bytes)
            .map_err(|_| "no zlib stream, or one that is cut short or too long")?;
        Ok(u32::from_be_bytes(bytes))
    }
}

fn topic(part: &[u8]) -> Result<TopicConfig, &'static str> {
    let text = String::from_utf8_lossy(part);
    let mut fields = text.split(' ');
    let name = shared(fields.next().unwrap_or_default());
    let mut number = || {
        fields.next().and_then(|field| field.parse::<i32>().ok()).ok_or("a topic with a number that is none")
    };
    let (read, write, perm) = (number()?, number()?, number()?);
    // The filter type must be there. The table keeps neither it nor the attributes.
    fields.next().ok_or("a topic with too few words")?;
    Ok(TopicConfig { topic: name, queues: QueueConfig { read, write, perm, sys_flag: 0 } })
}
