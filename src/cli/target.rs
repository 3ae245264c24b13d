//! Which nameservers a command talks to.

use super::Failure;
use super::output::Format;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A list of `host:port`, separated by `,` or `;` as RocketMQ's own tools write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses(Vec<String>);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut list: Vec<String> = Vec::new();
        for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            check_address(part)?;
            if list.iter().any(|known| known == part) {
                return Err(format!("'{part}' stands twice in '{text}'"));
            }
            list.push(part.to_owned());
        }
        if list.is_empty() {
            return Err("no address given; expected host:port[,host:port]".to_owned());
        }
        Ok(Self(list))
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// Checks `host:port`, with an IPv6 host in brackets.
pub(crate) fn check_address(text: &str) -> Result<(), String> {
    let wrong = |why: &str| format!("'{text}' is not host:port ({why})");
    let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("no port"))?;
    port.parse::<u16>().map_err(|_| wrong("the port is no number up to 65535"))?;
    if host.is_empty() {
        return Err(wrong("no host"));
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(wrong("write an IPv6 address in brackets: [::1]:9876"));
    }
    Ok(())
}

/// Flags that every looking or changing command has.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// Nameservers, separated by , or ;
    #[arg(long, short = 'n', env = "NAMESRV_ADDR", default_value = "127.0.0.1:9876")]
    addr: Addresses,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// How long to wait for one answer, milliseconds
    #[arg(long, default_value_t = 3000)]
    timeout_ms: u64,
}

impl Target {
    /// All addresses, in the order given.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addr.0
    }

    /// Text or JSON.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// Limit of one request, connecting included.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Asks each address in turn until one answers; fails with all that was heard when none does.
    ///
    /// # Errors
    /// None answered.
    pub(crate) async fn first<T>(&self, ask: impl AsyncFn(&str) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut failures = Vec::new();
        for address in self.addresses() {
            match ask(address).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failures.push(failure),
            }
        }
        Err(one_of(failures))
    }

    /// Asks every address, also when one gives no answer.
    pub(crate) async fn each<T>(&self, ask: impl AsyncFn(&str) -> Result<T, Failure>) -> Heard<'_, T> {
        let mut heard = Heard { answers: Vec::new(), failures: Vec::new() };
        for address in self.addresses() {
            match ask(address).await {
                Ok(answer) => heard.answers.push((address, answer)),
                Err(failure) => heard.failures.push(failure),
            }
        }
        heard
    }
}

/// What all addresses said.
pub(crate) struct Heard<'a, T> {
    /// Those that answered, in the order given.
    pub(crate) answers: Vec<(&'a str, T)>,
    /// Why the others did not.
    failures: Vec<Failure>,
}

impl<T> Heard<'_, T> {
    /// After what was heard is shown: fails with what is wrong in it, and with each address that gave no answer.
    ///
    /// # Errors
    /// As said.
    pub(crate) fn judge(self, wrong: Option<String>) -> Result<(), Failure> {
        let all: Vec<Failure> = wrong.map(Failure::refused).into_iter().chain(self.failures).collect();
        if all.is_empty() { Ok(()) } else { Err(one_of(all)) }
    }
}

/// Several failures as one.
fn one_of(failures: Vec<Failure>) -> Failure {
    let advice = failures.iter().find_map(|failure| failure.advice);
    let messages: Vec<String> = failures.into_iter().map(|failure| failure.message).collect();
    Failure::refused(messages.join("\n")).with(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_separators_and_a_trailing_one_are_taken() {
        let list: Addresses = "a:1;b:2, c:3;".parse().unwrap();
        assert_eq!(list.0, ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for (text, why) in [
            ("", "no address"),
            (";", "no address"),
            ("a", "no port"),
            ("a:b", "no number"),
            (":1", "no host"),
            ("a:70000", "no number"),
            ("::1:9876", "brackets"),
            ("a:1,a:1", "twice"),
        ] {
            let error = text.parse::<Addresses>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
