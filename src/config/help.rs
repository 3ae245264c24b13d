//! The settings as `serve --help` shows them.

use super::setting::{Group, Setting};
use super::{Config, Flags, PropertiesFile, SETTINGS};
use std::fmt::Write;

/// One line: clap breaks it where the terminal ends.
const INTRODUCTION: &str = "\
    The file that -c names has Java's keys and these, as key=value lines; here they stand with their defaults. -p prints \
    them with the values that hold for this node. Replicated settings (orderMessageEnable and the like) count only when \
    the cluster is bootstrapped; after that `raft-namesrv settings` shows and changes them. docs/settings.md has all keys.";

/// All settings of a node with their defaults, ranges and units, by chapter.
pub(crate) fn settings_help() -> String {
    let mut text = INTRODUCTION.to_owned();
    // No flag and no file: nothing that could be refused.
    let Ok(defaults) = Config::new(Flags::default(), PropertiesFile::default()) else { return text };
    for group in Group::ALL {
        text += &format!("\n\n{}:", group.title());
        for setting in SETTINGS.iter().filter(|setting| setting.group == group) {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n  {}={}\n      {}",
                setting.key,
                setting.get(&defaults),
                explanation(setting)
            );
        }
    }
    text
}

fn explanation(setting: &Setting) -> String {
    let unit = setting.form.unit();
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    format!("{} [{}{unit}]", setting.help, setting.form.describe())
}
