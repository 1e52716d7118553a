//! Stop strings in a stream of text.

/// Watches a stream of text for strings that end it, and holds back what may be the beginning of one.
///
/// ```
/// use rustorch_llm::generate::StopFilter;
///
/// let mut filter = StopFilter::new(["User:"]);
/// assert_eq!(filter.push("Well. Us"), ("Well. ".to_owned(), false));
/// assert_eq!(filter.push("eful."), ("Useful.".to_owned(), false));
/// assert_eq!(filter.push(" User: and"), (" ".to_owned(), true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopFilter {
    stops: Vec<String>,
    held: String,
}

impl StopFilter {
    /// A filter for these strings; empty ones are ignored.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> StopFilter {
        let stops = stops.into_iter().map(Into::into).filter(|s: &String| !s.is_empty()).collect();
        StopFilter { stops, held: String::new() }
    }

    /// Adds text; returns what may be shown, and whether a stop string has ended the stream before the rest.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        // Hold back the longest tail that begins some stop string.
        let keep = self
            .held
            .char_indices()
            .map(|(i, _)| i)
            .find(|&i| self.stops.iter().any(|stop| stop.starts_with(&self.held[i..])))
            .unwrap_or(self.held.len());
        let tail = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, tail), false)
    }

    /// Ends the stream: what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_stop_wins_wherever_the_text_is_cut() {
        let text = "one two ENDx three END four";
        for stops in [vec!["END f", "three"], vec!["ENDx"], vec!["missing"], vec![""], vec!["é", "two E"]] {
            let expected = {
                let at = stops.iter().filter(|s| !s.is_empty()).filter_map(|s| text.find(s)).min();
                &text[..at.unwrap_or(text.len())]
            };
            for step in 1..6 {
                let mut filter = StopFilter::new(stops.clone());
                let mut out = String::new();
                let mut stopped = false;
                for piece in text.as_bytes().chunks(step) {
                    let (shown, stop) = filter.push(std::str::from_utf8(piece).unwrap());
                    out += &shown;
                    if stop {
                        stopped = true;
                        break;
                    }
                }
                if !stopped {
                    out += &filter.finish();
                }
                assert_eq!(out, expected, "{stops:?} in pieces of {step}");
            }
        }
    }
}
