//! Parameters that can be changed while chatting.

use super::Chat;
use super::commands::Param;
use crate::args::{SamplingArgs, candidates, limit, seed};
use crate::failure::Failure;
use crate::{output, sampling};

impl Chat {
    pub(super) fn show_params(&self) {
        for &param in Param::ALL {
            output::note(format_args!("{:17} {}", param.name(), self.get(param)));
        }
    }

    pub(super) fn get(&self, param: Param) -> String {
        let config = self.sampler.config();
        let unlimited = |n: usize| if n == usize::MAX { "unlimited".to_owned() } else { n.to_string() };
        match param {
            Param::Temp => config.temperature.to_string(),
            Param::TopK => config.top_k.to_string(),
            Param::TopP => config.top_p.to_string(),
            Param::MinP => config.min_p.to_string(),
            Param::RepeatPenalty => config.repeat_penalty.to_string(),
            Param::PresencePenalty => config.presence_penalty.to_string(),
            Param::FrequencyPenalty => config.frequency_penalty.to_string(),
            Param::RepeatLastN => unlimited(config.repeat_last_n),
            Param::Seed => config.seed.to_string(),
            Param::NPredict => unlimited(self.options.max_tokens.unwrap_or(usize::MAX)),
        }
    }

    /// Changes one parameter; a value that makes no sense changes nothing.
    pub(super) fn set(&mut self, param: Param, value: &str) -> Result<(), Failure> {
        fn read<T, E>(param: Param, value: &str, read: impl Fn(&str) -> Result<T, E>) -> Result<T, Failure> {
            read(value).map_err(|_| Failure::Usage(format!("`{value}` is no value for {}", param.name())))
        }
        let number = |text: &str| text.parse::<f32>();
        let mut params: SamplingArgs = self.params.clone();
        match param {
            Param::Temp => params.temp = Some(read(param, value, number)?),
            Param::TopK => params.top_k = Some(read(param, value, candidates)?),
            Param::TopP => params.top_p = Some(read(param, value, number)?),
            Param::MinP => params.min_p = Some(read(param, value, number)?),
            Param::RepeatPenalty => params.repeat_penalty = Some(read(param, value, number)?),
            Param::PresencePenalty => params.presence_penalty = Some(read(param, value, number)?),
            Param::FrequencyPenalty => params.frequency_penalty = Some(read(param, value, number)?),
            Param::RepeatLastN => params.repeat_last_n = Some(read(param, value, limit)?),
            Param::Seed => params.seed = Some(read(param, value, seed)?),
            Param::NPredict => {
                let unlimited = value == "unlimited";
                self.options.max_tokens = if unlimited { None } else { Some(read(param, value, limit)?) };
                return Ok(());
            }
        }
        self.sampler = sampling::sampler(&params, self.session.model())?;
        self.params = params;
        Ok(())
    }
}
