//! A conversation with a model: its tokens, their cache, and the loop that adds to them.

use super::StopFilter;
use crate::model::KvCache;
use crate::sampling::Sampler;
use crate::tokenizer::{StreamDecoder, Tokenizer};
use crate::{Error, LanguageModel, Result};
use rustorch_core::{Device, Error as TensorError};
use rustorch_runtime::HybridExecutor;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens when the context is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// [`Error::ContextFull`].
    Error,
    /// The first `keep` tokens stay, the older half of the others is forgotten, and the rest is decoded again, so that
    /// what follows is exactly what a fresh context with these tokens would give.
    Shift {
        /// How many tokens at the beginning stay.
        keep: usize,
    },
}

/// How a session is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// How many tokens the context holds.
    pub context: usize,
    /// The most tokens decoded in one call; larger inputs are cut.
    pub batch: usize,
    /// What happens when the context is full.
    pub overflow: Overflow,
    /// How long a generation should go on without a call of its observer while it reads a prompt: batches are as small as the
    /// speed measured so far asks for.
    pub observe_every: Duration,
}

impl SessionOptions {
    /// The model's own context length, but at most 4096 tokens; batches of 512; an error at the end; a call of the observer in a
    /// quarter of a second.
    pub fn for_model(model: &LanguageModel) -> SessionOptions {
        let context = model.model().config().context.min(4096);
        let observe_every = Duration::from_millis(250);
        SessionOptions { context, batch: 512, overflow: Overflow::Error, observe_every }
    }
}

/// What ends a generation, besides the model's own end-of-generation tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationOptions {
    /// The most tokens to generate; `None` until the model ends or the context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end the generation; they are not part of it.
    pub stop: Vec<String>,
    /// Whether control tokens are shown as text.
    pub show_special: bool,
    /// Whether end-of-generation tokens are generated like others.
    pub ignore_end: bool,
}

/// One step of a generation, as its observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// So many of the prompt's tokens are decoded; or, after a shift, of what the context holds now.
    Prompt {
        /// Decoded so far, those taken from the cache included.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// A token was chosen; the text that it completes may be empty.
    Token {
        /// The token's id.
        id: u32,
        /// Text that is certain now: whole characters, and no beginning of a stop text.
        text: &'a str,
    },
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    End,
    /// A stop text appeared.
    Stop,
    /// The limit was reached.
    Length,
    /// The context is full.
    ContextFull,
    /// The observer asked to stop.
    Interrupted,
}

/// What a generation did.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The tokens generated, an end-of-generation token not included.
    pub tokens: Vec<u32>,
    /// The text generated.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// Prompt tokens that were decoded.
    pub prompt_tokens: usize,
    /// Prompt tokens that were in the cache already.
    pub reused_tokens: usize,
    /// Tokens that a full context dropped while text was generated.
    pub dropped_tokens: usize,
    /// Time to decode the prompt.
    pub prompt_time: Duration,
    /// Time to generate, from the first choice to the last.
    pub generation_time: Duration,
}

impl Generation {
    /// Prompt tokens decoded per second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Tokens generated per second.
    pub fn generation_rate(&self) -> f64 {
        rate(self.tokens.len(), self.generation_time)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// The text that tokens become: decoded, and watched for stop texts. Without a tokenizer there is none.
struct OutputText<'a> {
    tokenizer: Option<&'a Tokenizer>,
    decoder: Option<StreamDecoder<'a>>,
    filter: StopFilter,
}

impl<'a> OutputText<'a> {
    fn new(model: &'a LanguageModel, options: &GenerationOptions) -> OutputText<'a> {
        let tokenizer = model.tokenizer().ok();
        OutputText {
            tokenizer,
            decoder: tokenizer.map(|t| t.stream(options.show_special)),
            filter: StopFilter::new(options.stop.iter().cloned()),
        }
    }

    /// The text that has become certain, and whether a stop text has appeared.
    fn push(&mut self, id: u32) -> (String, bool) {
        match &mut self.decoder {
            Some(decoder) => self.filter.push(&decoder.push(id)),
            None => (String::new(), false),
        }
    }

    /// What was held back.
    fn finish(&mut self) -> String {
        let tail = self.decoder.as_mut().map(|d| d.finish()).unwrap_or_default();
        let (mut rest, stopped) = self.filter.push(&tail);
        if !stopped {
            rest.push_str(&self.filter.finish());
        }
        rest
    }
}

/// A sequence of tokens that a model has read, ready to be continued.
pub struct Session {
    model: Arc<LanguageModel>,
    options: SessionOptions,
    cache: KvCache,
    /// The tokens in the cache.
    tokens: Vec<u32>,
    /// The logits after the last of them; empty when unknown.
    logits: Vec<f32>,
    /// Tokens read per second in the latest batch, if there was one.
    speed: Option<f64>,
}

/// The tokens that a full context is to hold instead of these, so that there is room for more; `None` ends the generation.
pub type MakeRoom<'a> = dyn FnMut(&[u32]) -> Option<Vec<u32>> + 'a;

impl Session {
    /// An empty session.
    ///
    /// # Errors
    /// If the context or the batch is zero, or memory for the context runs out.
    pub fn new(model: Arc<LanguageModel>, options: SessionOptions) -> Result<Session> {
        if options.context == 0 || options.batch == 0 {
            return Err(Error::Request("context and batch must hold one token at least".into()));
        }
        let cache = model.model().new_cache_for(options.context, options.batch)?;
        Ok(Session { model, options, cache, tokens: Vec::new(), logits: Vec::new(), speed: None })
    }

    /// The model.
    pub fn model(&self) -> &Arc<LanguageModel> {
        &self.model
    }

    /// The options.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The tokens read so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The keys and values of the tokens read so far.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// Forgets all tokens from position `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len < self.tokens.len() {
            self.tokens.truncate(len);
            self.cache.truncate(len);
            self.logits.clear();
        }
    }

    /// Reads tokens and returns the logits after the last.
    ///
    /// # Errors
    /// As [`crate::model::Model::forward`]. Tokens before the failing batch have been read.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        self.check_room(self.tokens.len() + tokens.len())?;
        self.catch_up()?;
        for (i, batch) in tokens.chunks(self.options.batch).enumerate() {
            self.read(batch, i * self.options.batch + batch.len() == tokens.len())?;
        }
        Ok(&self.logits)
    }

    /// Reads tokens in batches, telling the observer how many are done after each; `false` if it asked to stop.
    fn feed_observed(
        &mut self,
        tokens: &[u32],
        observe: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.check_room(self.tokens.len() + tokens.len())?;
        self.catch_up()?;
        let mut done = 0;
        while done < tokens.len() {
            let in_time = self.speed.unwrap_or(0.0) * self.options.observe_every.as_secs_f64();
            let n = (in_time as usize).clamp(1, self.options.batch).min(tokens.len() - done);
            let start = Instant::now();
            self.read(&tokens[done..done + n], done + n == tokens.len())?;
            self.wait_for_devices()?;
            self.speed = Some(rate(n, start.elapsed()));
            done += n;
            if observe(done).is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails if the context does not hold so many tokens.
    fn check_room(&self, needed: usize) -> Result<()> {
        match self.options.context {
            capacity if needed > capacity => Err(Error::ContextFull { capacity, needed }),
            _ => Ok(()),
        }
    }

    /// Reads again what a cache that could not go back to the end of the tokens has forgotten besides.
    fn catch_up(&mut self) -> Result<()> {
        for batch in self.tokens[self.cache.len().min(self.tokens.len())..].chunks(self.options.batch) {
            self.model.model().forward(batch, &mut self.cache, false)?;
        }
        Ok(())
    }

    /// Reads one batch after what was read before.
    fn read(&mut self, batch: &[u32], wanted: bool) -> Result<()> {
        self.logits.clear();
        self.logits = match self.decode(batch, wanted) {
            Err(Error::Tensor(error)) if self.cache_is_lost() => {
                self.decode_again(batch, wanted).map_err(|_| Error::Tensor(error))?
            }
            logits => logits?,
        };
        self.tokens.extend_from_slice(batch);
        Ok(())
    }

    /// Waits until devices have computed what they were given.
    fn wait_for_devices(&self) -> Result<()> {
        let devices: BTreeSet<Device> = self.cache.devices().filter(|device| !device.is_cpu()).collect();
        for device in devices {
            // A device that is lost has nothing to wait for; the next batch is computed without it.
            if !self.cache_is_lost() {
                HybridExecutor::with_current(|executor| executor.synchronize(device))?;
            }
        }
        Ok(())
    }

    /// Decodes tokens after those in the cache; the logits after the last, if wanted.
    fn decode(&mut self, tokens: &[u32], wanted: bool) -> Result<Vec<f32>> {
        let logits = self.model.model().forward(tokens, &mut self.cache, false)?;
        Ok(if wanted { logits.to_vec()? } else { Vec::new() })
    }

    /// Whether a device that held keys and values is gone.
    fn cache_is_lost(&self) -> bool {
        self.cache.is_lost()
    }

    /// [`decode`](Self::decode) after a device is lost: what it held of the cache is computed again, on the devices that are
    /// left. Weights are still in the file.
    fn decode_again(&mut self, tokens: &[u32], wanted: bool) -> Result<Vec<f32>> {
        self.cache = self.model.model().new_cache_for(self.options.context, self.options.batch)?;
        for batch in self.tokens.clone().chunks(self.options.batch) {
            self.model.model().forward(batch, &mut self.cache, false)?;
        }
        self.decode(tokens, wanted)
    }

    /// Makes `prompt` the session's tokens, keeping what the cache shares with it, then generates.
    ///
    /// The observer sees every step and may stop the generation; what was generated until then stays in the session.
    /// `sampler` chooses; repetition penalties look back over the whole session.
    ///
    /// # Errors
    /// If the prompt is empty or does not fit the context, or decoding fails. A context that fills up later ends the
    /// generation, or shifts, as [`Overflow`] says.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        sampler: &mut Sampler,
        options: &GenerationOptions,
        observe: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let overflow = self.options.overflow;
        self.generate_with_room(prompt, sampler, options, observe, &mut |tokens| match overflow {
            Overflow::Error => None,
            Overflow::Shift { keep } => without_older_half(tokens, keep),
        })
    }

    /// As [`generate`](Self::generate), but a context that fills up while text is generated goes on with the tokens that `make_room` makes of
    /// those in it, whatever [`Overflow`] says. What they share with those from the beginning is not read again.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn generate_with_room(
        &mut self,
        prompt: &[u32],
        sampler: &mut Sampler,
        options: &GenerationOptions,
        observe: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
        make_room: &mut MakeRoom<'_>,
    ) -> Result<Generation> {
        if prompt.is_empty() {
            return Err(Error::Request("the prompt has no tokens".into()));
        }
        // Before anything is forgotten.
        self.check_room(prompt.len())?;
        let start = Instant::now();
        // The last token is read again where its logits are not at hand.
        let at_end = self.tokens == prompt && !self.logits.is_empty();
        let reused = if at_end { prompt.len() } else { self.shared(prompt).min(prompt.len() - 1) };
        let go_on = self.hold(prompt, reused, observe)?;
        let mut run = Generation {
            tokens: Vec::new(),
            text: String::new(),
            finish: FinishReason::Interrupted,
            prompt_tokens: self.tokens.len() - reused,
            reused_tokens: reused,
            dropped_tokens: 0,
            prompt_time: start.elapsed(),
            generation_time: Duration::ZERO,
        };
        if go_on {
            let start = Instant::now();
            let result = self.continue_text(sampler, options, observe, make_room, &mut run);
            run.generation_time = start.elapsed();
            result?;
        }
        Ok(run)
    }

    /// How many of these tokens the session begins with.
    fn shared(&self, tokens: &[u32]) -> usize {
        self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count()
    }

    /// Makes these the session's tokens, of which it keeps the first `reused`; `false` if the observer asked to stop.
    fn hold(
        &mut self,
        tokens: &[u32],
        reused: usize,
        observe: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.truncate(reused);
        self.feed_observed(&tokens[reused..], &mut |done| {
            observe(Step::Prompt { done: reused + done, total: tokens.len() })
        })
    }

    /// Chooses and reads tokens until something ends the generation.
    fn continue_text(
        &mut self,
        sampler: &mut Sampler,
        options: &GenerationOptions,
        observe: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
        make_room: &mut MakeRoom<'_>,
        run: &mut Generation,
    ) -> Result<()> {
        let model = Arc::clone(&self.model);
        let mut text = OutputText::new(&model, options);
        run.finish = loop {
            if options.max_tokens == Some(run.tokens.len()) {
                break FinishReason::Length;
            }
            let id = sampler.sample(&self.logits, &self.tokens)?;
            if !options.ignore_end && text.tokenizer.is_some_and(|t| t.is_eog(id)) {
                break FinishReason::End;
            }
            run.tokens.push(id);
            let (shown, stopped) = text.push(id);
            run.text.push_str(&shown);
            let go_on = observe(Step::Token { id, text: &shown });
            if stopped {
                run.finish = FinishReason::Stop;
                return Ok(());
            }
            if go_on.is_break() {
                break FinishReason::Interrupted;
            }
            if options.max_tokens == Some(run.tokens.len()) {
                break FinishReason::Length;
            }
            if self.tokens.len() == self.options.context {
                let room = make_room(&self.tokens).filter(|tokens| tokens.len() < self.options.context);
                let Some(tokens) = room else { break FinishReason::ContextFull };
                run.dropped_tokens += self.tokens.len() - tokens.len();
                if !self.hold(&tokens, self.shared(&tokens), observe)? {
                    break FinishReason::Interrupted;
                }
            }
            self.feed(&[id])?;
        };
        let rest = text.finish();
        if let (false, Some(&id)) = (rest.is_empty(), run.tokens.last()) {
            run.text.push_str(&rest);
            // The generation has ended; the observer's answer has no consequence any more.
            let _ = observe(Step::Token { id, text: &rest });
        }
        Ok(())
    }

    /// The logits after the last token, `[vocabulary]`.
    ///
    /// # Errors
    /// If nothing has been read.
    pub fn logits(&self) -> Result<&[f32]> {
        if self.logits.is_empty() {
            return Err(TensorError::argument("logits", "no token has been read").into());
        }
        Ok(&self.logits)
    }
}

/// Tokens without the older half of those after the first `keep`: what a full context goes on with. `None` where there are no others.
pub fn without_older_half(tokens: &[u32], keep: usize) -> Option<Vec<u32>> {
    let (kept, others) = tokens.split_at(keep.min(tokens.len()));
    (!others.is_empty()).then(|| [kept, &others[others.len().div_ceil(2)..]].concat())
}
