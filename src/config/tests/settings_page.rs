//! `docs/settings.md` is written from the tables. `WRITE_DOCS=1 cargo test --lib settings_page` writes it anew.

use super::config;
use crate::config::setting::{Group, Setting};
use crate::config::{Config, Flags, SETTINGS, java_keys};
use crate::handlers::JAVA_PATHS;
use std::fmt::Write;
use std::path::Path;
use storage::settings::{REPLICATED, SettingKind, Settings};

const INTRODUCTION: &str = "\
# Settings

A test writes this page from the tables of the code (`src/config/table.rs`, `storage/src/settings.rs`):
`WRITE_DOCS=1 cargo test --lib settings_page`. Do not edit it.

There are three kinds of settings:

- **Settings of a node** hold for one process. A flag beats an environment variable, that beats the properties file
  (`serve -c FILE`), and that beats the default. `serve -p` prints the values that hold, as the file takes them.
- **Settings of the cluster** are replicated: they have one value, the same at all nodes. The file counts only when the
  cluster is bootstrapped. After that `raft-namesrv settings` shows them and `raft-namesrv settings set KEY VALUE` (or
  `mqadmin updateNamesrvConfig`, code 318) changes them. A node whose file asks for another value says so once in its log.
- **Keys of Java without effect** may stand in the file, so that Java's own file can be taken as it is. One warning at the
  start names them.
";

/// A row of a table; `|` would end a cell.
fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn code(text: &str) -> String {
    if text.is_empty() { "(empty)".to_owned() } else { format!("`{text}`") }
}

fn values(setting: &Setting) -> String {
    let (form, unit) = (setting.form.describe(), setting.form.unit());
    if unit.is_empty() { form } else { format!("{form}, {unit}") }
}

fn of_a_node(page: &mut String, defaults: &Config) {
    page.push_str(
        "\n## Settings of a node\n\nCode 319 shows those marked with *, since Java's nameserver has them too, and \
         `configBlackList` with Java's own keys.\n",
    );
    for group in Group::ALL {
        let _ = write!(page, "\n### {}\n\n", group.title());
        page.push_str(&row(&["key", "default", "values", "what it does"]));
        page.push_str(&row(&["---", "---", "---", "---"]));
        for setting in SETTINGS.iter().filter(|setting| setting.group == group) {
            let mark = if setting.in_code_319 { " *" } else { "" };
            let flag = setting.flag.map(|(flag, variable)| format!("; `{flag}`, `{variable}`"));
            let help = format!("{}{}", setting.help, flag.unwrap_or_default());
            let key = format!("`{}`{mark}", setting.key);
            page.push_str(&row(&[&key, &code(&setting.get(defaults)), &values(setting), &help]));
        }
    }
}

fn of_the_cluster(page: &mut String) {
    page.push_str("\n## Settings of the cluster\n\n");
    page.push_str(&row(&["key", "default", "values", "what it does"]));
    page.push_str(&row(&["---", "---", "---", "---"]));
    let defaults = Settings::default().properties();
    for setting in &REPLICATED {
        let key = code(setting.name);
        page.push_str(&row(&[&key, &code(&defaults[setting.name]), setting.form, setting.help]));
    }
}

fn without_effect(page: &mut String) {
    page.push_str(
        "\n## Keys of Java without effect\n\nCode 318 sets these for the whole cluster and code 319 shows them, by default as \
         Java does:\n\n",
    );
    let properties = Settings::default().properties();
    let replicated = properties.iter().filter(|(key, _)| Settings::kind(key) == SettingKind::WithoutEffect);
    let replicated: Vec<String> = replicated.map(|(key, text)| format!("`{key}={text}`")).collect();
    let _ = write!(page, "{}.\n\n", replicated.join(", "));
    let _ = write!(page, "These may stand in the file; code 319 shows them as the file has them:\n\n");
    let of_a_node = JAVA_PATHS.iter().chain(&java_keys::UNUSED_KEYS);
    let of_a_node: Vec<String> = of_a_node.map(|key| code(key)).collect();
    let _ = writeln!(page, "{}.", of_a_node.join(", "));
}

#[test]
fn the_settings_page_has_what_the_tables_have() {
    let defaults = config(Flags::default(), "").unwrap();
    let mut page = INTRODUCTION.to_owned();
    of_a_node(&mut page, &defaults);
    of_the_cluster(&mut page);
    without_effect(&mut page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/settings.md is old: WRITE_DOCS=1 cargo test --lib settings_page");
}
