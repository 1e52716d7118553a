//! How a classifier on top of a model ranks, as architectures describe it.

/// The scores that a ranking model gives a text: of one row of hidden states or their mean, through a layer (`cls`), an activation and a
/// norm where the file has the layer, and the layer `cls.output` where it has that.
#[derive(Clone, Copy, Debug)]
pub struct Ranking {
    /// Which rows, where the metadata does not say otherwise.
    pub rows: RankedRows,
    /// Whether the activation is GELU instead of tanh.
    pub gelu: bool,
    /// Whether scores are a softmax.
    pub softmax: bool,
}

/// What is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankedRows {
    /// The hidden state of the first token.
    First,
    /// That of the last token.
    Last,
    /// The mean of all.
    Mean,
}
