//! Frames, read and joined without the code under test, so that a mistake made in both directions there still shows.

use serde_json::Value;
use std::collections::BTreeMap;

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) code: i64,
    pub(super) flag: i64,
    pub(super) opaque: i64,
    pub(super) version: Option<i64>,
    pub(super) language: String,
    pub(super) serialization: &'static str,
    pub(super) ext: BTreeMap<String, String>,
    pub(super) remark: Option<String>,
    /// Keys of a JSON header, in order.
    pub(super) header_keys: Vec<String>,
    pub(super) body: Vec<u8>,
}

pub(super) fn join(serialization: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(4 + header.len() + body.len()).unwrap().to_be_bytes().to_vec();
    let mark = u32::from(serialization) << 24 | u32::try_from(header.len()).unwrap();
    frame.extend(mark.to_be_bytes());
    frame.extend(header);
    frame.extend(body);
    frame
}

/// Reads a whole frame, with its length.
pub(super) fn decode(frame: &[u8]) -> Result<Decoded, String> {
    let header_length = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
    let header = frame.get(8..8 + header_length).ok_or("a header that is longer than its frame")?;
    let body = frame[8 + header_length..].to_vec();
    match frame[4] {
        0 => decode_json(header, body),
        1 => Ok(decode_binary(header, body)),
        other => Err(format!("serialization {other}")),
    }
}

fn decode_json(header: &[u8], body: Vec<u8>) -> Result<Decoded, String> {
    let header: Value = serde_json::from_slice(header).map_err(|e| format!("header: {e}"))?;
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let ext = header["extFields"].as_object();
    Ok(Decoded {
        code: header["code"].as_i64().ok_or("code is no number")?,
        flag: header["flag"].as_i64().unwrap_or_default(),
        opaque: header["opaque"].as_i64().ok_or("opaque is no number")?,
        version: header["version"].as_i64(),
        language: text(&header["language"]).unwrap_or_default(),
        serialization: "JSON",
        ext: ext
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), text(v).unwrap_or_else(|| v.to_string())))
            .collect(),
        remark: text(&header["remark"]),
        header_keys: header.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect(),
        body,
    })
}

fn decode_binary(header: &[u8], body: Vec<u8>) -> Decoded {
    let int = |at: usize| i64::from(i32::from_be_bytes(header[at..at + 4].try_into().unwrap()));
    let short = |at: usize| i64::from(i16::from_be_bytes(header[at..at + 2].try_into().unwrap()));
    let text = |at: usize, length: usize| String::from_utf8_lossy(&header[at..at + length]).into_owned();
    let length_at = |at: usize| usize::try_from(int(at)).unwrap();
    let remark_length = length_at(13);
    let mut at = 17 + remark_length;
    let end = at + 4 + length_at(at);
    at += 4;
    let mut ext = BTreeMap::new();
    while at < end {
        let key_length = usize::try_from(short(at)).unwrap();
        let key = text(at + 2, key_length);
        at += 2 + key_length;
        let value_length = length_at(at);
        ext.insert(key, text(at + 4, value_length));
        at += 4 + value_length;
    }
    let language = if header[2] == 0 { "JAVA".to_owned() } else { header[2].to_string() };
    Decoded {
        code: short(0),
        flag: int(9),
        opaque: int(5),
        version: Some(short(3)),
        language,
        serialization: "ROCKETMQ",
        ext,
        remark: (remark_length > 0).then(|| text(17, remark_length)),
        header_keys: Vec::new(),
        body,
    }
}
