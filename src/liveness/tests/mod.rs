//! Three ledgers, a model of consensus and pretend brokers, all in plain code and explicit time.

mod cost;
mod layers;
mod rules;
mod simulation;
mod world;
