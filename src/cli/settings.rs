//! `settings`: the settings that code 319 shows, and changes of the replicated ones (code 318).

use super::client::Client;
use super::{Failure, output, output::Format, target::Target};
use crate::wire::codes::request;
use clap::Subcommand;
use std::collections::{BTreeMap, BTreeSet};

/// Flags of `settings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show all settings, or one, and where the addresses differ
    Get {
        /// Only this key [default: all]
        key: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Change a replicated setting: one log entry, the same at all nodes
    Set {
        /// Java's property name
        key: String,
        /// Its new value
        value: String,
        #[command(flatten)]
        target: Target,
    },
}

type Pairs = BTreeMap<String, String>;

/// Shows or changes settings.
///
/// # Errors
/// No node answers, the change is refused, or it had no effect.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        None => get(None, &args.target).await,
        Some(Action::Get { key, target }) => get(key.as_deref(), target).await,
        Some(Action::Set { key, value, target }) => set(key, value, target).await,
    }
}

async fn get(wanted: Option<&str>, target: &Target) -> Result<(), Failure> {
    let all = target.each(async |address| settings(address, wanted, target).await).await;
    let known = all.answers.iter().any(|(_, settings)| !settings.is_empty());
    if let Some(key) = wanted.filter(|_| !known && !all.answers.is_empty()) {
        return all.result(Some(format!("no setting is named {key}")));
    }
    match target.format() {
        Format::Json => output::json(&all.answers.iter().cloned().collect::<BTreeMap<_, _>>())?,
        Format::Text => print(&all.answers)?,
    }
    all.result(None)
}

/// The settings of one address, or only one of them.
async fn settings(address: &str, wanted: Option<&str>, target: &Target) -> Result<Pairs, Failure> {
    let settings = Client::connect(address, target.timeout()).await?.settings().await?;
    Ok(settings.into_iter().filter(|(key, _)| wanted.is_none_or(|w| w == key)).collect())
}

/// One line for a value that is the same at all addresses, else one line per address.
fn print(nodes: &[(&str, Pairs)]) -> Result<(), Failure> {
    let keys: BTreeSet<&String> = nodes.iter().flat_map(|(_, settings)| settings.keys()).collect();
    for key in keys {
        let values: Vec<(&str, Option<&String>)> =
            nodes.iter().map(|(node, settings)| (*node, settings.get(key))).collect();
        let same = values.windows(2).all(|pair| matches!(pair, [a, b] if a.1 == b.1));
        if let (true, Some((_, Some(value)))) = (same, values.first()) {
            output::line(&format!("{key}={value}"))?;
            continue;
        }
        for (node, value) in values {
            let value = value.map_or("(not set)", String::as_str);
            output::line(&format!("{key}={value}   at {node}"))?;
        }
    }
    Ok(())
}

async fn set(key: &str, value: &str, target: &Target) -> Result<(), Failure> {
    if key.contains(['\n', '=', ':', ' ']) || value.contains('\n') {
        return Err(Failure::arguments(format!(
            "'{key}={value}' is not one property: key=value in one line"
        )));
    }
    let escaped = value.replace('\\', "\\\\");
    let now = target
        .first(async |address| {
            let mut client = Client::connect(address, target.timeout()).await?;
            let command = client
                .request(request::UPDATE_NAMESRV_CONFIG)
                .with_body(format!("{key}={escaped}\n").into_bytes());
            client.must(&command).await?;
            client.settings().await
        })
        .await?;
    let value_now = now.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    match value_now {
        None => Err(Failure::refused(format!("no setting is named {key}; nothing was changed"))),
        Some(held) if held == value => {
            let text = format!("{key}={held}");
            match target.format() {
                Format::Json => output::json(&BTreeMap::from([(key, held)]))?,
                Format::Text => output::line(&text)?,
            }
            Ok(())
        }
        Some(held) => Err(Failure::refused(format!(
            "{key} is still {held}: '{value}' is not taken (a node setting, or no such value)"
        ))),
    }
}
