//! What one setting of a node is: its key, what its values are, what they do, and where [`Config`] keeps it.

use super::address::{parse_host, parse_listen};
use super::members::Members;
use super::{Config, parse_serialization};
use crate::protocol::ReadMode;
use crate::wire::Serialization;
use raft::{Member, NodeId};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A setting of a node: a row of [`super::SETTINGS`].
#[derive(Debug)]
pub(crate) struct Setting {
    /// The name in the properties file.
    pub(crate) key: &'static str,
    /// The chapter of the help and the reference where the setting stands.
    pub(crate) group: Group,
    /// What a value is.
    pub(crate) form: Form,
    /// What a value does, for an operator.
    pub(crate) help: &'static str,
    /// The flag of `serve` that beats the file, and its environment variable.
    pub(crate) flag: Option<(&'static str, &'static str)>,
    /// Whether code 319 shows the setting: Java's nameserver has it as well.
    pub(crate) in_code_319: bool,
    slot: fn(&mut Config) -> Slot<'_>,
}

/// Chapters, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Identity, addresses and data.
    Node,
    /// When a broker's host is taken for dead.
    DeadHosts,
    /// Mass eviction.
    Guard,
    /// Limits of connections, requests and registrations.
    Limits,
    /// How look-ups are answered.
    Reads,
    /// Log and snapshots.
    Log,
    /// Between the nodes.
    Peers,
}

impl Group {
    /// All, in their order.
    pub(crate) const ALL: [Self; 7] =
        [Self::Node, Self::DeadHosts, Self::Guard, Self::Limits, Self::Reads, Self::Log, Self::Peers];

    /// The heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Node => "This node",
            Self::DeadHosts => "When the host of a broker is taken for dead",
            Self::Guard => "Mass eviction guard",
            Self::Limits => "Limits",
            Self::Reads => "Look-ups",
            Self::Log => "Log and snapshots",
            Self::Peers => "Other nodes",
        }
    }
}

/// What the values of a setting are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// A number of `unit` within a range.
    Number {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// `true` or `false`.
    Switch,
    /// A text of this form.
    Text(&'static str),
}

impl Form {
    /// In words; `u64::MAX` is no limit.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Number { min, max: u64::MAX, .. } => format!("a number from {min}"),
            Self::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Self::Switch => "true or false".to_owned(),
            Self::Text(form) => form.to_owned(),
        }
    }

    /// The unit of a number; empty for everything else.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Number { unit, .. } => unit,
            Self::Switch | Self::Text(_) => "",
        }
    }
}

impl Setting {
    /// A number of `unit` from `min` to `max`.
    pub(super) const fn number(
        group: Group,
        key: &'static str,
        slot: fn(&mut Config) -> Slot<'_>,
        (min, max): (u64, u64),
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { key, group, form: Form::Number { min, max, unit }, help, flag: None, in_code_319: false, slot }
    }

    /// `true` or `false`.
    pub(super) const fn switch(
        group: Group,
        key: &'static str,
        slot: fn(&mut Config) -> Slot<'_>,
        help: &'static str,
    ) -> Self {
        Self { key, group, form: Form::Switch, help, flag: None, in_code_319: false, slot }
    }

    /// A text of a form that its slot checks.
    pub(super) const fn text(
        group: Group,
        key: &'static str,
        slot: fn(&mut Config) -> Slot<'_>,
        form: &'static str,
        help: &'static str,
    ) -> Self {
        Self { key, group, form: Form::Text(form), help, flag: None, in_code_319: false, slot }
    }

    /// The same with a flag and an environment variable.
    pub(super) const fn with_flag(mut self, flag: &'static str, environment: &'static str) -> Self {
        self.flag = Some((flag, environment));
        self
    }

    /// The same, shown by code 319.
    pub(super) const fn shown_by_code_319(mut self) -> Self {
        self.in_code_319 = true;
        self
    }

    /// Reads the value from its text in the file.
    ///
    /// # Errors
    /// The text is no such value; the error names the key and the text and says what a value is.
    pub(super) fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        if let Form::Number { min, max, .. } = self.form
            && !text.parse::<u64>().is_ok_and(|number| (min..=max).contains(&number))
        {
            return Err(format!("{}={text} is not {}", self.key, self.form.describe()));
        }
        let written = (self.slot)(config).write(text);
        written.map_err(|why| match why {
            Some(why) => format!("{}={text}: {why}", self.key),
            None => format!("{}={text} is not {}", self.key, self.form.describe()),
        })
    }

    /// The value as the file has it.
    pub(crate) fn get(&self, config: &Config) -> String {
        (self.slot)(&mut config.clone()).read()
    }
}

/// Where a setting is kept, to read or write it.
pub(super) enum Slot<'a> {
    Switch(&'a mut bool),
    Count(&'a mut usize),
    Number(&'a mut u64),
    Percent(&'a mut u32),
    Seconds(&'a mut Duration),
    Millis(&'a mut Duration),
    /// Zero stands for `None`.
    OptionalMillis(&'a mut Option<Duration>),
    Text(&'a mut String),
    Path(&'a mut PathBuf),
    /// The IP address of an address to listen on.
    Ip(&'a mut SocketAddr),
    /// The port of an address to listen on.
    Port(&'a mut SocketAddr),
    Address(&'a mut SocketAddr),
    NodeId(&'a mut NodeId),
    Members(&'a mut Vec<Member>),
    Serialization(&'a mut Serialization),
    ReadMode(&'a mut ReadMode),
}

impl Slot<'_> {
    /// Fails with what is wrong with the text; `None`: it is simply not of the form.
    fn write(self, text: &str) -> Result<(), Option<String>> {
        match self {
            Self::Switch(value) => *value = parse(text)?,
            Self::Count(value) => *value = parse(text)?,
            Self::Number(value) => *value = parse(text)?,
            Self::Percent(value) => *value = parse(text)?,
            Self::Seconds(value) => *value = Duration::from_secs(parse(text)?),
            Self::Millis(value) => *value = Duration::from_millis(parse(text)?),
            Self::OptionalMillis(value) => {
                let time = Duration::from_millis(parse(text)?);
                *value = (!time.is_zero()).then_some(time);
            }
            Self::Text(value) => text.clone_into(value),
            Self::Path(value) => *value = PathBuf::from(text),
            Self::Ip(value) => value.set_ip(parse_host(text).map_err(Some)?),
            Self::Port(value) => value.set_port(parse(text)?),
            Self::Address(value) => *value = parse_listen(text).map_err(Some)?,
            Self::NodeId(value) => *value = parse(text)?,
            Self::Members(value) => {
                *value = if text.is_empty() { Vec::new() } else { text.parse::<Members>().map_err(Some)?.0 };
            }
            Self::Serialization(value) => *value = parse_serialization(text).map_err(Some)?,
            Self::ReadMode(value) => {
                *value = match text {
                    "local" => ReadMode::Local,
                    "linearizable" => ReadMode::Linearizable,
                    _ => return Err(None),
                };
            }
        }
        Ok(())
    }

    /// As the file has it.
    fn read(self) -> String {
        match self {
            Self::Switch(value) => value.to_string(),
            Self::Count(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Percent(value) => value.to_string(),
            Self::Seconds(value) => value.as_secs().to_string(),
            Self::Millis(value) => value.as_millis().to_string(),
            Self::OptionalMillis(value) => value.unwrap_or_default().as_millis().to_string(),
            Self::Text(value) => value.clone(),
            Self::Path(value) => value.display().to_string(),
            Self::Ip(value) => value.ip().to_string(),
            Self::Port(value) => value.port().to_string(),
            Self::Address(value) => value.to_string(),
            Self::NodeId(value) => value.to_string(),
            Self::Members(members) => joined(members),
            Self::Serialization(value) => value.to_string(),
            Self::ReadMode(ReadMode::Linearizable) => "linearizable".to_owned(),
            // Only a request asks for a revision, never a setting.
            Self::ReadMode(ReadMode::Local | ReadMode::MinRevision(_)) => "local".to_owned(),
        }
    }
}

fn parse<T: FromStr>(text: &str) -> Result<T, Option<String>> {
    text.parse().map_err(|_| None)
}

fn joined(members: &[Member]) -> String {
    let one = |member: &Member| format!("{}={}", member.id, member.address);
    members.iter().map(one).collect::<Vec<_>>().join(",")
}
