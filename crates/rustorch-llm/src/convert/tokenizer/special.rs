//! Tokens with a role, merges and chat templates: what gguf-py's `SpecialVocab` finds.

use super::{Folder, text_of};
use crate::convert::ConvertError;
use rustorch_formats::gguf::Metadata;
use serde_json::{Map, Value};

/// What a tokenizer says besides its tokens.
#[derive(Default)]
pub(super) struct SpecialTokens {
    merges: Vec<String>,
    /// Roles and ids.
    ids: Vec<(&'static str, u32)>,
    /// Roles, and whether their tokens are put around texts.
    added: Vec<(&'static str, bool)>,
    /// Names and texts; that without a name is the one to use.
    templates: Vec<(String, String)>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

const ROLES: [&str; 7] = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"];

impl SpecialTokens {
    /// `size` bounds ids that are taken, where it is given.
    pub(super) fn read(
        folder: &Folder,
        json: Option<&Value>,
        settings: Option<Value>,
        size: Option<usize>,
        with_merges: bool,
    ) -> Result<SpecialTokens, ConvertError> {
        let mut found = SpecialTokens::default();
        let mut settings = match settings {
            Some(Value::Object(settings)) => Some(settings),
            _ => None,
        };
        let mut roles = ROLES.to_vec();
        if let Some(json) = json {
            if let Some(normalizer) = json.get("normalizer") {
                found.normalize(normalizer);
            }
            found.post_process(json, settings.as_mut(), &mut roles);
        }
        if with_merges {
            found.merges = match merges(json) {
                merges if merges.is_empty() => {
                    folder.text("merges.txt")?.map(|text| listed(&text)).unwrap_or_default()
                }
                merges => merges,
            };
        }
        if let Some(settings) = &settings {
            found.templates = templates(folder, settings)?;
            for role in &roles {
                let given = settings.get(&format!("add_{role}_token")).and_then(Value::as_bool);
                if let (Some(given), None) = (given, found.is_added(role)) {
                    found.added.push((role, given));
                }
                let Some(text) = settings.get(&format!("{role}_token")).and_then(text_of) else { continue };
                let tokens = json.and_then(|json| json.get("added_tokens")?.as_array());
                let mut tokens = tokens.into_iter().flatten();
                let token = tokens.find(|token| token.get("content").and_then(Value::as_str) == Some(text));
                found.set(role, token.and_then(|token| token.get("id")), size);
            }
        }
        if let Some(config) = folder.json("config.json")? {
            for role in roles {
                let field = format!("{role}_token_id");
                let id = config.get(&field).filter(|id| !id.is_null());
                found.set(role, id.or_else(|| config.get("text_config")?.get(&field)), size);
            }
        }
        Ok(found)
    }

    fn is_added(&self, role: &str) -> Option<bool> {
        self.added.iter().find(|(of, _)| *of == role).map(|(_, added)| *added)
    }

    fn add(&mut self, role: &'static str, added: bool) {
        match self.added.iter_mut().find(|(of, _)| *of == role) {
            Some((_, before)) => *before = added,
            None => self.added.push((role, added)),
        }
    }

    /// Gives a role an id, unless it has one or there is no such token.
    fn set(&mut self, role: &'static str, id: Option<&Value>, size: Option<usize>) {
        let id = id.and_then(Value::as_u64).filter(|&id| size.is_none_or(|size| id < size as u64));
        let id = id.and_then(|id| u32::try_from(id).ok());
        if let (Some(id), true) = (id, self.ids.iter().all(|(of, _)| *of != role)) {
            self.ids.push((role, id));
        }
    }

    fn normalize(&mut self, normalizer: &Value) {
        let flag = |name: &str| normalizer.get(name).and_then(Value::as_bool);
        match normalizer.get("type").and_then(Value::as_str) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                self.lowercase = flag("lowercase").or(self.lowercase);
                self.strip_accents = flag("strip_accents").or(self.strip_accents);
            }
            Some("Sequence") => {
                let parts = normalizer.get("normalizers").and_then(Value::as_array);
                parts.into_iter().flatten().for_each(|part| self.normalize(part));
            }
            _ => {}
        }
    }

    /// Which tokens the `post_processor` puts around texts, and the roles that follow from that.
    fn post_process(
        &mut self,
        json: &Value,
        settings: Option<&mut Map<String, Value>>,
        roles: &mut Vec<&'static str>,
    ) {
        let Some(whole) = json.get("post_processor").filter(|whole| !whole.is_null()) else {
            return;
        };
        let nested = whole.get("processors").and_then(Value::as_array);
        let steps: Vec<&Value> = nested.map_or(vec![whole], |nested| nested.iter().collect());
        let mut around = Around { settings, roles };
        if around.text("bos").is_none()
            && let Some(cls) = around.text("cls")
        {
            around.set("bos", &cls);
        }
        if around.text("eos").is_none()
            && let Some(sep) = around.text("sep")
        {
            around.set("eos", &sep);
        }
        for step in steps {
            match step.get("type").and_then(Value::as_str) {
                Some("ByteLevel") => {
                    for role in ["bos", "eos"] {
                        if self.is_added(role).is_none() {
                            self.add(role, false);
                        }
                    }
                }
                Some("TemplateProcessing") => self.template(step, &mut around),
                _ => {}
            }
        }
    }

    /// A template of tokens around one text, and around two.
    fn template(&mut self, step: &Value, around: &mut Around<'_>) {
        let parts = |name: &str| -> Vec<&Value> {
            step.get(name).and_then(Value::as_array).into_iter().flatten().collect()
        };
        let token = |part: &Value| Some(part.pointer("/SpecialToken/id")?.as_str()?.to_owned());
        let (single, pair) = (parts("single"), parts("pair"));
        let (mut first, mut last) = (None, None);
        if single.len() > 1 {
            first = token(single[0]);
            last = token(single[single.len() - 1]);
        }
        if let Some(first) = &first {
            let is = |around: &Around<'_>, role| around.text(role).as_ref() == Some(first);
            if !is(around, "bos") && !is(around, "cls") {
                for role in ["bos", "cls"] {
                    if around.text(role).is_none() {
                        around.set(role, first);
                    }
                }
            }
            let is_begin = around.settings.is_none() || is(around, "bos") || is(around, "cls");
            self.add("bos", is_begin);
        }
        if let Some(last) = &last {
            let end = around.text("eos");
            if end.as_ref() != Some(last) {
                // The one that was the end of a text ends a turn.
                let other = ["eot", "eom"].into_iter().find(|role| !around.roles.contains(role));
                if let (Some(role), Some(end)) = (other, &end) {
                    around.roles.push(role);
                    around.set(role, end);
                }
                around.set("eos", last);
            }
            self.add("eos", true);
        }
        if pair.is_empty() {
            return;
        }
        let begins = first.is_some() && token(pair[0]) == first;
        let ends = last.is_some() && token(pair[pair.len() - 1]) == last;
        let inner = &pair[usize::from(begins)..pair.len() - usize::from(ends)];
        let sequence = |part: &Value| Some(part.pointer("/Sequence/id")?.as_str()?.to_owned());
        let [a, between @ .., b] = inner else { return };
        if sequence(a).as_deref() != Some("A") || sequence(b).as_deref() != Some("B") || between.is_empty() {
            return;
        }
        let separates = |part: &Value| {
            token(part).is_some_and(|token| {
                around.text("sep").as_ref() == Some(&token) || around.text("eos").as_ref() == Some(&token)
            })
        };
        let first_separates = separates(between[0]) && last.is_none();
        let separated = first_separates || between.len() == 2 && separates(between[1]);
        self.add("sep", separated);
        if separated
            && around.text("sep").is_none()
            && let Some(end) = around.text("eos")
        {
            around.set("sep", &end);
        }
    }

    pub(super) fn write(&self, metadata: &mut Metadata) -> Result<(), ConvertError> {
        if !self.merges.is_empty() {
            metadata.set("tokenizer.ggml.merges", self.merges.clone())?;
        }
        for (role, id) in &self.ids {
            let name = match *role {
                "unk" => "unknown",
                // As ggml spells it.
                "sep" => "seperator",
                "pad" => "padding",
                // GGUF has no key for it.
                "cls" => continue,
                role => role,
            };
            metadata.set(&format!("tokenizer.ggml.{name}_token_id"), *id)?;
        }
        for (role, added) in self.added.iter().filter(|(role, _)| matches!(*role, "bos" | "eos" | "sep")) {
            metadata.set(&format!("tokenizer.ggml.add_{role}_token"), *added)?;
        }
        let (unnamed, named): (Vec<_>, Vec<_>) = self.templates.iter().partition(|(name, _)| name.is_empty());
        for (name, template) in &named {
            metadata.set(&format!("tokenizer.chat_template.{name}"), template.as_str())?;
        }
        if !named.is_empty() {
            let names: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
            metadata.set("tokenizer.chat_templates", names)?;
        }
        for (_, template) in unnamed {
            metadata.set("tokenizer.chat_template", template.as_str())?;
        }
        for (key, flag) in [("lowercase", self.lowercase), ("strip_accents", self.strip_accents)] {
            if let Some(flag) = flag {
                metadata.set(&format!("tokenizer.ggml.normalizer.{key}"), flag)?;
            }
        }
        Ok(())
    }
}

/// The texts of tokens by their role, as the settings have them; without settings nothing is remembered.
struct Around<'a> {
    settings: Option<&'a mut Map<String, Value>>,
    roles: &'a mut Vec<&'static str>,
}

impl Around<'_> {
    fn text(&self, role: &str) -> Option<String> {
        let text = self.settings.as_ref()?.get(&format!("{role}_token"))?;
        text_of(text).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn set(&mut self, role: &str, text: &str) {
        if let Some(settings) = &mut self.settings {
            settings.insert(format!("{role}_token"), text.into());
        }
    }
}

/// The merges of a `tokenizer.json`, `left right` each; spaces inside of parts become the character that stands for them.
fn merges(json: Option<&Value>) -> Vec<String> {
    let merges = json.and_then(|json| json.pointer("/model/merges")?.as_array());
    let part = |part: &Value| Some(part.as_str()?.replace(' ', "\u{120}"));
    let merge = |merge: &Value| match merge {
        Value::String(text) => Some(text.clone()),
        Value::Array(pair) => Some(pair.iter().map(part).collect::<Option<Vec<_>>>()?.join(" ")),
        _ => None,
    };
    merges.into_iter().flatten().filter_map(merge).collect()
}

/// The merges of a `merges.txt`.
fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().filter(|(i, line)| *i > 0 || !line.starts_with('#'));
    let words = lines.map(|(_, line)| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.len() == 2).map(|words| words.join(" ")).collect()
}

/// Chat templates: those of the settings, or of files beside them.
fn templates(folder: &Folder, settings: &Map<String, Value>) -> Result<Vec<(String, String)>, ConvertError> {
    match settings.get("chat_template") {
        Some(Value::String(template)) => return Ok(vec![(String::new(), template.clone())]),
        Some(Value::Array(templates)) => {
            let named = templates.iter().filter_map(|choice| {
                let (name, template) = (choice.get("name")?.as_str()?, choice.get("template")?.as_str()?);
                Some((key(name), template.to_owned()))
            });
            return Ok(named.collect());
        }
        _ => {}
    }
    if let Some(template) = folder.text("chat_template.jinja")? {
        return Ok(vec![(String::new(), template)]);
    }
    let json = folder.json("chat_template.json")?;
    let template = json.and_then(|json| json.get("chat_template")?.as_str().map(str::to_owned));
    Ok(template.into_iter().map(|template| (String::new(), template)).collect())
}

/// A template's name as a part of a key; none for the default one.
fn key(name: &str) -> String {
    match name {
        "default" => String::new(),
        name => name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect(),
    }
}
