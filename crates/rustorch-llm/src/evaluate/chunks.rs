//! A text in chunks of one length, and the models that they run through.

use super::EvaluateError;
use crate::LanguageModel;
use crate::model::{KvCache, LinearObserver, Model, Wanted};
use crate::tokenizer::EncodeOptions;
use rustorch_tensor::Tensor;
use std::ops::Range;

/// Tokens that go through a model at a time.
const BATCH: usize = 512;
/// About so many logits are computed at a time.
const LOGITS: usize = 1 << 23;

/// The tokens of a text in chunks of one length; what is left over at its end is left out.
#[derive(Clone, Debug)]
pub struct Chunks {
    tokens: Vec<u32>,
    context: usize,
}

impl Chunks {
    /// Chunks of `context` tokens each; at most `limit` of them.
    ///
    /// # Errors
    /// If the text is shorter than one chunk, or `context` leaves nothing to score.
    pub fn new(mut tokens: Vec<u32>, context: usize, limit: Option<usize>) -> Result<Chunks, EvaluateError> {
        if context < 3 {
            return Err(EvaluateError::Context { context });
        }
        let count = (tokens.len() / context).min(limit.unwrap_or(usize::MAX));
        if count == 0 {
            return Err(EvaluateError::TooShort { tokens: tokens.len(), context });
        }
        tokens.truncate(count * context);
        Ok(Chunks { tokens, context })
    }

    /// Those of a text, with the begin-of-text token first where the model wants it and control tokens not recognised.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the model has no tokenizer.
    pub fn of_text(
        model: &LanguageModel,
        text: &str,
        context: usize,
        limit: Option<usize>,
    ) -> Result<Chunks, EvaluateError> {
        let tokens = model.tokenizer()?.encode(text, EncodeOptions::default());
        Chunks::new(tokens, context, limit)
    }

    /// How many chunks there are.
    pub fn len(&self) -> usize {
        self.tokens.len() / self.context
    }

    /// Never: there is one chunk at least.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The length of each.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The tokens of all chunks.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The chunks.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.tokens.chunks_exact(self.context)
    }

    /// The positions in a chunk after which the next token is scored.
    pub(super) fn scored(&self) -> Range<usize> {
        self.context / 2..self.context - 1
    }
}

/// Takes logits `[rows, vocabulary]` and the tokens that follow each row, `[rows]`.
pub(crate) type Score<'a> = dyn FnMut(Tensor, &[u32]) -> Result<(), EvaluateError> + 'a;

/// Runs chunks through a model, each in an empty context.
pub(crate) struct ChunkRunner<'a> {
    model: &'a Model,
    cache: KvCache,
    /// The token that stands in the place of each chunk's first, where the model wants one.
    bos: Option<u32>,
}

impl<'a> ChunkRunner<'a> {
    pub(crate) fn new(model: &'a LanguageModel, context: usize) -> Result<ChunkRunner<'a>, EvaluateError> {
        let bos = match model.tokenizer() {
            Ok(tokenizer) if tokenizer.adds_bos() => tokenizer.special().bos,
            _ => None,
        };
        let model = model.model();
        Ok(ChunkRunner { model, cache: model.new_cache(context)?, bos })
    }

    /// Calls `score` with the logits behind the positions `scored` of a chunk, some rows at a time, and the tokens that follow them. Nothing behind these
    /// positions is computed.
    pub(crate) fn score(
        &mut self,
        chunk: &[u32],
        scored: Range<usize>,
        score: &mut Score<'_>,
    ) -> Result<(), EvaluateError> {
        self.begin();
        let model = self.model;
        self.read(chunk, 0..scored.start, BATCH, Wanted::LastLogits, None)?;
        for rows in batches(scored, (LOGITS / model.config().vocabulary).clamp(1, BATCH)) {
            let logits =
                model.run(&self.replaced(chunk, rows.clone()), &mut self.cache, Wanted::Logits, None)?;
            score(logits, &chunk[rows.start + 1..rows.end + 1])?;
        }
        Ok(())
    }

    /// Runs a chunk whose linear layers are observed; with the layer that gives logits, or without.
    pub(crate) fn observe(
        &mut self,
        chunk: &[u32],
        output: bool,
        observer: &dyn LinearObserver,
    ) -> Result<(), EvaluateError> {
        self.begin();
        let (batch, wanted) = match output {
            true => ((LOGITS / self.model.config().vocabulary).clamp(1, BATCH), Wanted::Logits),
            false => (BATCH, Wanted::HiddenStates),
        };
        self.read(chunk, 0..chunk.len(), batch, wanted, Some(observer))
    }

    /// Empties the context.
    fn begin(&mut self) {
        self.cache.truncate(0);
    }

    fn read(
        &mut self,
        chunk: &[u32],
        positions: Range<usize>,
        batch: usize,
        wanted: Wanted,
        observer: Option<&dyn LinearObserver>,
    ) -> Result<(), EvaluateError> {
        for rows in batches(positions, batch) {
            self.model.run(&self.replaced(chunk, rows), &mut self.cache, wanted, observer)?;
        }
        Ok(())
    }

    /// The tokens at these positions, the begin-of-text token in the place of the chunk's first.
    fn replaced(&self, chunk: &[u32], positions: Range<usize>) -> Vec<u32> {
        let mut tokens = chunk[positions.clone()].to_vec();
        if let (0, Some(bos), Some(first)) = (positions.start, self.bos, tokens.first_mut()) {
            *first = bos;
        }
        tokens
    }
}

fn batches(positions: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = positions.end;
    positions.step_by(length).map(move |start| start..(start + length).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_chunks_are_taken_and_their_second_halves_scored() {
        let chunks = Chunks::new((0..23).collect(), 5, None).unwrap();
        assert_eq!((chunks.len(), chunks.tokens().len(), chunks.scored()), (4, 20, 2..4));
        assert_eq!(chunks.iter().nth(1), Some(&[5, 6, 7, 8, 9][..]));
        assert_eq!(Chunks::new((0..23).collect(), 5, Some(2)).unwrap().len(), 2);
        assert!(matches!(
            Chunks::new(vec![1; 4], 5, None),
            Err(EvaluateError::TooShort { tokens: 4, context: 5 })
        ));
        assert!(matches!(Chunks::new(vec![1; 4], 2, None), Err(EvaluateError::Context { context: 2 })));
        assert_eq!(Chunks::new(vec![1; 4], 3, None).unwrap().scored(), 1..2);
        let ranges: Vec<_> = batches(3..10, 3).collect();
        assert_eq!(ranges, [3..6, 6..9, 9..10]);
    }
}
