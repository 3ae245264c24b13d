//! The limits of the budgets.

/// How many bytes the connections of clients may hold together, by what they hold them for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Frames that have not arrived whole. Beyond, the connections with such frames are not read.
    pub incomplete_frames: usize,
    /// Registrations that are being parsed, compared and proposed, as large as their bodies are when inflated. Beyond,
    /// they wait until their deadlines.
    pub parsed_registrations: usize,
    /// Replies that peers have not taken. Beyond, connections with such replies are not read, and large replies are
    /// not made.
    pub unsent_replies: usize,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { incomplete_frames: 256 << 20, parsed_registrations: 256 << 20, unsent_replies: 512 << 20 }
    }
}
