//! Which nameservers a command talks to.

use super::Failure;
use super::output::Format;
use crate::config::{DEFAULT_PORT, check_address};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Limit of one request, unless the command line has another.
const TIMEOUT: Duration = Duration::from_secs(3);

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

impl Default for Addresses {
    /// A node of this machine with the default port.
    fn default() -> Self {
        Self(vec![format!("127.0.0.1:{DEFAULT_PORT}")])
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// Flags of every command that asks nameservers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// Nameservers to ask: HOST:PORT of their RocketMQ ports, separated by , or ;
    #[arg(long, short = 'n', env = "NAMESRV_ADDR", value_name = "ADDRESSES", default_value_t)]
    addr: Addresses,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
    /// How long to wait for each answer, connecting included, milliseconds [default: 3000]
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
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
        self.timeout_or(TIMEOUT)
    }

    /// The same for a request that usually takes another time.
    pub(crate) fn timeout_or(&self, usual: Duration) -> Duration {
        self.timeout_ms.map_or(usual, Duration::from_millis)
    }

    /// Asks each address in turn until one answers.
    ///
    /// # Errors
    /// No address answers; the failure has the messages of all.
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

    /// Asks all addresses side by side; gives the first that answers, with its answer. For what changes nothing.
    ///
    /// # Errors
    /// No address answers; the failure has the messages of all.
    pub(crate) async fn any<T>(
        &self,
        ask: impl AsyncFn(&str) -> Result<T, Failure>,
    ) -> Result<(&str, T), Failure> {
        let ask = &ask;
        let mut asked: FuturesUnordered<_> =
            self.addresses().iter().map(|address| async move { (address, ask(address).await) }).collect();
        let mut failures = Vec::new();
        while let Some((address, answer)) = asked.next().await {
            match answer {
                Ok(answer) => return Ok((address, answer)),
                Err(failure) => failures.push(failure),
            }
        }
        Err(one_of(failures))
    }

    /// Asks every address, also when one gives no answer.
    pub(crate) async fn each<T>(&self, ask: impl AsyncFn(&str) -> Result<T, Failure>) -> Answers<'_, T> {
        let mut all = Answers { answers: Vec::new(), failures: Vec::new() };
        for address in self.addresses() {
            match ask(address).await {
                Ok(answer) => all.answers.push((address, answer)),
                Err(failure) => all.failures.push(failure),
            }
        }
        all
    }
}

/// The answers of several addresses.
pub(crate) struct Answers<'a, T> {
    /// Address and answer, in the order in which the addresses were given.
    pub(crate) answers: Vec<(&'a str, T)>,
    /// Why the other addresses gave none.
    failures: Vec<Failure>,
}

impl<T> Answers<'_, T> {
    /// The result of the command, after the answers are shown; `wrong` says what is wrong with them, if anything.
    ///
    /// # Errors
    /// Something is wrong with the answers, or an address gave none.
    pub(crate) fn result(self, wrong: Option<String>) -> Result<(), Failure> {
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
