//! Look-ups (105).

use super::ReadContext;
use super::replies::not_ready;
use crate::protocol::{GetRoute, Reply, body, remarks};
use crate::wire::codes::result::TOPIC_NOT_EXIST;
use std::time::Duration;

/// GET_ROUTEINFO_BY_TOPIC.
#[must_use]
pub fn get(ask: &GetRoute<'_>, context: ReadContext<'_>) -> Reply {
    let settings = context.table.settings();
    if settings.need_wait_for_service {
        let wait = Duration::from_secs(settings.wait_seconds_for_service.try_into().unwrap_or(0));
        if context.uptime < wait {
            return not_ready();
        }
    }
    let body = match (ask.topic, ask.zone) {
        (Some(topic), None) => {
            context.routes.body(context.table, topic, ask.style, || body::route(context.table, ask))
        }
        _ => body::route(context.table, ask),
    };
    body.map_or_else(|| Reply::refused(TOPIC_NOT_EXIST, remarks::no_route(ask.topic)), Reply::with_body)
}
