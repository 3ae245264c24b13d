//! KV configuration and the replicated settings. Each namespace's size is kept beside it, so that a put need not count it.

use super::RouteInfo;
use crate::Position;
use crate::command::{DeleteKv, Name, PutKv, UpdateSettings};
use crate::limits::json_bytes_max;
use crate::outcome::{Event, Outcome};
use std::sync::Arc;

/// KV namespace that routes show (with `orderMessageEnable`).
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// What an entry counts in [`RouteInfo::kv_namespace_bytes`].
pub(super) fn entry_bytes(key: &str, value: Option<&Name>) -> usize {
    json_bytes_max(key) + value.map_or(0, |value| json_bytes_max(value))
}

impl RouteInfo {
    /// At most so many bytes does a reply take that carries the entries of a KV namespace.
    #[must_use]
    pub fn kv_namespace_bytes(&self, namespace: &str) -> usize {
        self.kv_bytes.get(namespace).copied().unwrap_or_default()
    }

    /// What the entry of a key counts now.
    pub(super) fn kv_entry_bytes(&self, namespace: &str, key: &str) -> usize {
        let entry = self.kv.get(namespace).and_then(|keys| keys.get(key));
        entry.map_or(0, |value| entry_bytes(key, value.as_ref()))
    }

    /// Counts an entry of a namespace in place of another one.
    pub(super) fn count_kv(&mut self, namespace: &Name, before: usize, after: usize) {
        let bytes = self.kv_bytes.entry(namespace.clone()).or_default();
        *bytes = (*bytes + after).saturating_sub(before);
    }

    /// Whether a put would change anything.
    pub(super) fn put_kv_changes(&self, put: &PutKv) -> bool {
        let present = self.kv.get(&put.namespace).and_then(|keys| keys.get(&put.key));
        present != Some(&put.value)
    }

    /// Carries PUT_KV_CONFIG out.
    pub(super) fn put_kv(&mut self, at: Position, put: &PutKv, events: &mut Vec<Event>) -> Outcome {
        let changed = self.put_kv_changes(put);
        if changed {
            let before = self.kv_entry_bytes(&put.namespace, &put.key);
            self.count_kv(&put.namespace, before, entry_bytes(&put.key, put.value.as_ref()));
            let keys = self.kv.entry(put.namespace.clone()).or_default();
            keys.insert(put.key.clone(), put.value.clone());
            self.kv_changed(at, &put.namespace);
            events.push(Event::KvChanged {
                namespace: put.namespace.clone(),
                key: put.key.clone(),
                deleted: false,
            });
        }
        Outcome::Done { changed }
    }

    /// Whether a delete would change anything.
    pub(super) fn delete_kv_changes(&self, delete: &DeleteKv) -> bool {
        self.kv.get(&delete.namespace).is_some_and(|keys| keys.contains_key(&delete.key))
    }

    /// Carries DELETE_KV_CONFIG out.
    pub(super) fn delete_kv(&mut self, at: Position, delete: &DeleteKv, events: &mut Vec<Event>) -> Outcome {
        let changed = self.delete_kv_changes(delete);
        if changed {
            let before = self.kv_entry_bytes(&delete.namespace, &delete.key);
            self.count_kv(&delete.namespace, before, 0);
            if let Some(keys) = self.kv.get_mut(&delete.namespace) {
                keys.remove(&delete.key);
            }
            self.kv_changed(at, &delete.namespace);
            events.push(Event::KvChanged {
                namespace: delete.namespace.clone(),
                key: delete.key.clone(),
                deleted: true,
            });
        }
        Outcome::Done { changed }
    }

    fn kv_changed(&mut self, at: Position, namespace: &str) {
        if namespace == ORDER_TOPIC_CONFIG {
            self.brokers_version = at;
        }
    }

    /// Carries UPDATE_NAMESRV_CONFIG out.
    pub(super) fn update_settings(
        &mut self,
        at: Position,
        command: &UpdateSettings,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let (after, changes) = self.settings.updated(&command.properties);
        if changes.is_empty() {
            return Outcome::Done { changed: false };
        }
        let before = std::mem::replace(&mut self.settings, Arc::new(after));
        if before.delete_topic_with_broker_registration != self.settings.delete_topic_with_broker_registration
        {
            self.settings_version = at;
        }
        if before.order_message_enable != self.settings.order_message_enable
            || before.support_acting_master != self.settings.support_acting_master
        {
            self.brokers_version = at;
        }
        events.push(Event::SettingsChanged { changes });
        Outcome::Done { changed: true }
    }
}
