//! `kv`: the KV configuration, one entry at a time or as Java's `kvConfig.json`.

use super::client::Client;
use super::{Failure, http, output, output::Format, target::Target};
use crate::wire::codes::{request, result};
use clap::Subcommand;
use hyper::Method;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Flags of `kv`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set an entry
    Put {
        /// Namespace, such as ORDER_TOPIC_CONFIG
        namespace: String,
        /// Key within the namespace
        key: String,
        /// Its new value
        value: String,
        #[command(flatten)]
        target: Target,
    },
    /// Print the value of an entry: ask each address and compare
    Get {
        /// Namespace
        namespace: String,
        /// Key within the namespace
        key: String,
        #[command(flatten)]
        target: Target,
    },
    /// Delete an entry; a missing one is no failure
    Delete {
        /// Namespace
        namespace: String,
        /// Key within the namespace
        key: String,
        #[command(flatten)]
        target: Target,
    },
    /// List the entries of a namespace, or of all (nodes of raft-namesrv only)
    List {
        /// Namespace [default: all]
        namespace: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Put every entry of a kvConfig.json as the Java nameserver keeps it
    Import {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        target: Target,
    },
    /// Write all entries as kvConfig.json, to a file or (with -) to stdout
    Export {
        /// The file, or - for stdout
        file: PathBuf,
        #[command(flatten)]
        target: Target,
    },
}

type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Java's file.
#[derive(Debug, Serialize, Deserialize)]
struct KvConfigFile {
    #[serde(rename = "configTable")]
    config_table: Namespaces,
}

/// Reads or changes KV entries.
///
/// # Errors
/// No node answers, there is no such entry, or the file cannot be read or written.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Put { namespace, key, value, target } => {
            target
                .first(async |address| put(&mut connect(address, target).await?, namespace, key, value).await)
                .await?;
            done(target, &json!({ "namespace": namespace, "key": key, "value": value }))
        }
        Action::Get { namespace, key, target } => get(namespace, key, target).await,
        Action::Delete { namespace, key, target } => {
            target.first(async |address| delete(address, namespace, key, target).await).await?;
            done(target, &json!({ "namespace": namespace, "key": key }))
        }
        Action::List { namespace, target } => list(namespace.as_deref(), target).await,
        Action::Import { file, target } => import(file, target).await,
        Action::Export { file, target } => export(file, target).await,
    }
}

async fn connect(address: &str, target: &Target) -> Result<Client, Failure> {
    Client::connect(address, target.timeout()).await
}

/// Text needs no line for a success; a script that asked for JSON gets a document.
fn done(target: &Target, what: &Value) -> Result<(), Failure> {
    match target.format() {
        Format::Json => Ok(output::json(what)?),
        Format::Text => Ok(()),
    }
}

async fn put(client: &mut Client, namespace: &str, key: &str, value: &str) -> Result<(), Failure> {
    let command = client.request(request::PUT_KV_CONFIG);
    let command = command.with("namespace", namespace).with("key", key).with("value", value);
    client.must(&command).await.map(drop)
}

async fn delete(address: &str, namespace: &str, key: &str, target: &Target) -> Result<(), Failure> {
    let mut client = connect(address, target).await?;
    let command = client.request(request::DELETE_KV_CONFIG).with("namespace", namespace).with("key", key);
    client.must(&command).await.map(drop)
}

async fn get(namespace: &str, key: &str, target: &Target) -> Result<(), Failure> {
    let all = target.each(async |address| value(address, namespace, key, target).await).await;
    let Some((_, first)) = all.answers.first() else { return all.result(None) };
    let differs = all.answers.iter().find(|(_, value)| value != first);
    let wrong = match (differs, first) {
        (Some((address, _)), _) => Some(format!("{namespace}/{key} differs at {address}: {:?}", all.answers)),
        (None, None) => Some(format!("no entry {namespace}/{key}")),
        (None, Some(value)) => {
            match target.format() {
                Format::Json => output::json(value)?,
                Format::Text => output::text(value)?,
            }
            None
        }
    };
    all.result(wrong)
}

/// An entry's value at one address; `None` when there is no such entry.
async fn value(
    address: &str,
    namespace: &str,
    key: &str,
    target: &Target,
) -> Result<Option<String>, Failure> {
    let mut client = connect(address, target).await?;
    let command = client.request(request::GET_KV_CONFIG).with("namespace", namespace).with("key", key);
    let answer = client.call(&command).await?;
    match answer.code {
        result::SUCCESS => Ok(answer.field("value").map(str::to_owned)),
        result::QUERY_NOT_FOUND => Ok(None),
        code => {
            let remark = answer.remark.unwrap_or_default();
            Err(Failure::refused(format!("{address}: code {code}: {remark}")))
        }
    }
}

async fn namespaces(target: &Target) -> Result<Namespaces, Failure> {
    let timeout = target.timeout();
    target
        .first(async |address| http::api(address, Method::GET, "/api/v1/kv", String::new(), timeout).await)
        .await
}

/// Entries of one namespace, also from a Java nameserver.
#[derive(Debug, Deserialize)]
struct KvTable {
    #[serde(default)]
    table: BTreeMap<String, String>,
}

async fn namespace_entries(address: &str, namespace: &str, target: &Target) -> Result<Namespaces, Failure> {
    let mut client = connect(address, target).await?;
    let command = client.request(request::GET_KVLIST_BY_NAMESPACE).with("namespace", namespace);
    let answer = client.must(&command).await?;
    let entries: KvTable = serde_json::from_slice(&answer.body)
        .map_err(|e| Failure::refused(format!("{address}: the list of {namespace} is no JSON: {e}")))?;
    Ok(BTreeMap::from([(namespace.to_owned(), entries.table)]))
}

async fn list(namespace: Option<&str>, target: &Target) -> Result<(), Failure> {
    let all = match namespace {
        Some(name) => target.first(async |address| namespace_entries(address, name, target).await).await?,
        None => namespaces(target).await?,
    };
    if target.format() == Format::Json {
        return Ok(output::json(&all)?);
    }
    let row =
        |namespace: &String, key: &String, value: &String| [namespace.clone(), key.clone(), value.clone()];
    let rows =
        all.iter().flat_map(|(ns, entries)| entries.iter().map(move |(key, value)| row(ns, key, value)));
    Ok(output::table(["NAMESPACE", "KEY", "VALUE"], rows.collect())?)
}

async fn import(file: &Path, target: &Target) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::refused(format!("cannot read {}: {e}", file.display())))?;
    let config: KvConfigFile = serde_json::from_str(&text)
        .map_err(|e| Failure::refused(format!("{} is no kvConfig.json: {e}", file.display())))?;
    let entries = config.config_table.values().map(BTreeMap::len).sum::<usize>();
    // Any address will do to connect; after that a failure says how many entries were put.
    let mut client = target.first(async |address| connect(address, target).await).await?;
    let progress = ProgressBar::new(u64::try_from(entries).unwrap_or(0));
    let mut done = 0usize;
    for (namespace, keys) in &config.config_table {
        for (key, value) in keys {
            put(&mut client, namespace, key, value).await.map_err(|failure| {
                let text = format!(
                    "{}\n{done} of {entries} entries were put; it is safe to import again",
                    failure.message
                );
                Failure::refused(text)
            })?;
            done += 1;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    match target.format() {
        Format::Json => output::json(&json!({ "put": done }))?,
        Format::Text => output::line(&format!("{done} entries put"))?,
    }
    Ok(())
}

async fn export(file: &Path, target: &Target) -> Result<(), Failure> {
    let config = KvConfigFile { config_table: namespaces(target).await? };
    if file.as_os_str() == "-" {
        return Ok(output::json(&config)?);
    }
    let text = serde_json::to_string_pretty(&config)
        .map_err(|e| Failure::refused(format!("cannot write the entries as JSON: {e}")))?;
    std::fs::write(file, text + "\n")
        .map_err(|e| Failure::refused(format!("cannot write {}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_file_is_read_and_written() {
        let text = r#"{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"broker-a:4"}}}"#;
        let config: KvConfigFile = serde_json::from_str(text).unwrap();
        assert_eq!(config.config_table["ORDER_TOPIC_CONFIG"]["t"], "broker-a:4");
        assert_eq!(serde_json::to_string(&config).unwrap(), text);
    }
}
