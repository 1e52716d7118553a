//! The pre-tokenizers by the names of `tokenizer.ggml.pre`, as llama.cpp applies them.
//!
//! Sources: each model's `tokenizer.json` for the intent, llama.cpp's `llama-vocab.cpp` and `unicode.cpp` for what
//! is really matched there (where the two differ, a comment says so and llama.cpp is followed).

/// One stage: cuts each piece of the stage before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Matches of a pattern, and the stretches between matches.
    Pattern(&'static str),
    /// Ends a piece after each group of three digits, counted from the right end of a number; what stands before
    /// a number stays in the piece of its first group.
    NumbersFromRight,
    /// Starts a piece where a multiple of three ASCII digits is left of a number.
    DigitTriples,
}

/// What a pre-tokenizer does besides splitting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) names: &'static [&'static str],
    pub(super) steps: &'static [Step],
    /// A piece that is a token as it stands is that token, without merging.
    pub(super) ignore_merges: bool,
    /// The beginning-of-text token is added unless the file says otherwise.
    pub(super) add_bos: bool,
    /// Decoding removes the space before punctuation when asked to.
    pub(super) clean_spaces: bool,
    /// Characters are merged as they are, spaces as `▁` where `escape_spaces`, instead of as byte characters.
    pub(super) raw_utf8: bool,
    /// Spaces become `▁` before splitting.
    pub(super) escape_spaces: bool,
    /// The file's default `bos` does not apply.
    pub(super) no_default_bos: bool,
    /// A piece of newlines that is a token is that token.
    pub(super) newline_tokens: bool,
}

use Step::{DigitTriples, NumbersFromRight, Pattern};

macro_rules! contraction {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}

/// `'s`-style endings, words with one leading other character, numbers (`$number`), punctuation with the newlines
/// after it, newlines with the white space before them, white space.
macro_rules! cl100k {
    ($number:literal) => {
        concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $number,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

/// Words split where an upper-case run meets a lower-case one. `$upper` and `$lower` are the two classes.
macro_rules! o200k {
    ($upper:literal, $lower:literal, $ending:expr, $number:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?",
            $upper,
            "*",
            $lower,
            "+",
            $ending,
            r"|[^\r\n\p{L}\p{N}]?",
            $upper,
            "+",
            $lower,
            "*",
            $ending,
            "|",
            $number,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

const GPT2: Step = Pattern(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+");
const LLAMA3: Step = Pattern(cl100k!(r"\p{N}{1,3}"));
const QWEN2: Step = Pattern(cl100k!(r"\p{N}"));
const NEWLINE_RUNS: Step = Pattern(r"[^\n]+|[\n]+");
const DIGIT: Step = Pattern(r"\p{N}");
const UP_TO_THREE_DIGITS: Step = Pattern(r"\p{N}{1,3}");
const DEEPSEEK3_CJK: Step = Pattern("[一-龥぀-ゟ゠-ヿ]+");
const DEEPSEEK_CJK: Step = Pattern("[一-龥ࠀ-一가-퟿]+");
const BLOOM: Step = Pattern(r" ?[^(\s|.,!?…。，、।۔،)]+");
const DEEPSEEK3_MAIN: Step = Pattern(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
);

const BASE: Spec = Spec {
    names: &[],
    steps: &[],
    ignore_merges: false,
    add_bos: false,
    clean_spaces: true,
    raw_utf8: false,
    escape_spaces: false,
    no_default_bos: false,
    newline_tokens: false,
};
/// Most newer models keep spaces as they are when decoding.
const KEEP: Spec = Spec { clean_spaces: false, ..BASE };

/// Every pre-tokenizer; the first is the default.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        names: &["default"],
        steps: &[Pattern(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, Pattern(r"\p{N}+"), Pattern("[0-9][0-9][0-9]")],
        ..BASE
    },
    Spec {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        steps: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..BASE
    },
    Spec {
        names: &["jais-2"],
        steps: &[Pattern(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
            r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)",
            r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
        ))],
        ..BASE
    },
    Spec { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], steps: &[LLAMA3], ..BASE },
    Spec {
        names: &["deepseek-llm"],
        steps: &[
            Pattern(r"[\r\n]"),
            Pattern(
                r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
            ),
            Pattern(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            Pattern(r"\s+$"),
            DEEPSEEK_CJK,
            Pattern(r"\p{N}+"),
        ],
        ..KEEP
    },
    Spec {
        names: &["deepseek-coder"],
        steps: &[Pattern(r"[\r\n]"), Pattern(r"\s?\p{L}+"), Pattern(r"\s?\p{P}+"), DEEPSEEK_CJK, DIGIT],
        ..KEEP
    },
    Spec {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: &[UP_TO_THREE_DIGITS, DEEPSEEK3_CJK, DEEPSEEK3_MAIN],
        ..KEEP
    },
    Spec {
        names: &["spark2_5"],
        steps: &[
            UP_TO_THREE_DIGITS,
            DEEPSEEK3_CJK,
            Pattern(
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
            ),
            DIGIT,
        ],
        ..KEEP
    },
    Spec {
        names: &["youtu"],
        steps: &[
            Pattern("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
            // llama.cpp reads every letter category as \p{L}, so case does not split here.
            Pattern(o200k!(r"[\p{L}\p{M}]", r"[\p{L}\p{M}]", concat!(contraction!(), "?"), r"\p{N}")),
        ],
        ignore_merges: true,
        ..KEEP
    },
    Spec {
        names: &["falcon"],
        steps: &[Pattern(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, Pattern("[0-9][0-9][0-9]")],
        ..BASE
    },
    Spec {
        names: &["starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: &[DIGIT, GPT2],
        ..BASE
    },
    Spec { names: &["command-r", "smollm"], steps: &[DIGIT, GPT2], ..KEEP },
    Spec {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "mpt",
            "olmo",
            "jais",
            "exaone4",
        ],
        steps: &[GPT2],
        ..BASE
    },
    Spec { names: &["trillion", "granite-docling"], steps: &[GPT2], ..KEEP },
    Spec { names: &["stablelm2", "megrez"], steps: &[QWEN2], ..BASE },
    Spec {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "solar-open", "grok-2"],
        steps: &[QWEN2],
        ..KEEP
    },
    Spec {
        names: &["qwen35"],
        steps: &[Pattern(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ))],
        ..KEEP
    },
    Spec { names: &["poro-chat"], steps: &[BLOOM], ..KEEP },
    Spec { names: &["bloom", "gpt3-finnish"], steps: &[BLOOM], ..BASE },
    Spec { names: &["viking"], steps: &[BLOOM, DIGIT], ..KEEP },
    Spec { names: &["glm4", "glm5"], steps: &[LLAMA3], no_default_bos: true, ignore_merges: true, ..BASE },
    Spec {
        names: &["tekken"],
        // llama.cpp tells case apart in ASCII only.
        steps: &[Pattern(o200k!(r"[\p{L}--a-z]", r"[\p{L}--A-Z]", "", r"\p{N}"))],
        ignore_merges: true,
        add_bos: true,
        ..KEEP
    },
    Spec {
        names: &["chameleon"],
        steps: &[
            Pattern("<sentinel:[0-9]+>"),
            Pattern("IMGIMG[A-I]{1,4}Z"),
            Pattern(r"[\t\n]|    |  "),
            DIGIT,
            Pattern(r"[\p{P}!-/:-@\[-`{-~]"),
            GPT2,
        ],
        add_bos: true,
        ..KEEP
    },
    Spec {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        steps: &[Pattern(o200k!(
            r"[\p{L}--a-z]",
            r"[\p{L}--A-Z]",
            concat!(contraction!(), "?"),
            r"\p{N}{1,3}"
        ))],
        ..KEEP
    },
    Spec {
        names: &["granite-embed-multi-97m"],
        steps: &[Pattern(o200k!(
            r"[\p{L}\p{M}--a-z]",
            r"[\p{L}\p{M}--A-Z]",
            concat!(contraction!(), "?"),
            r"\p{N}{1,3}"
        ))],
        ignore_merges: true,
        ..KEEP
    },
    Spec {
        names: &["tiny_aya", "cohere2moe"],
        steps: &[
            NumbersFromRight,
            Pattern(o200k!(r"[\p{L}\p{M}]", r"[\p{L}\p{M}]", concat!(contraction!(), "?"), r"\p{N}{1,3}")),
        ],
        ..KEEP
    },
    Spec { names: &["superbpe"], steps: &[Pattern(r"\p{N}+"), DigitTriples], ..KEEP },
    Spec {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        steps: &[Pattern(
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )],
        ..KEEP
    },
    Spec {
        names: &["seed-coder"],
        steps: &[Pattern(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
        ))],
        ..KEEP
    },
    Spec {
        names: &["kimi-k2"],
        steps: &[Pattern(concat!(
            r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{L}\p{^Han}]+",
            contraction!(),
            r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ))],
        ..KEEP
    },
    Spec {
        names: &["ufakzeka"],
        steps: &[Pattern(
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
        ..KEEP
    },
    Spec {
        names: &["afmoe"],
        steps: &[
            NumbersFromRight,
            Pattern("[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"),
            DEEPSEEK3_MAIN,
        ],
        ..KEEP
    },
    Spec { names: &["laguna"], steps: &[NEWLINE_RUNS, QWEN2], ..KEEP },
    Spec {
        names: &["exaone-moe"],
        steps: &[Pattern(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..BASE
    },
    Spec {
        names: &["minicpm5"],
        steps: &[UP_TO_THREE_DIGITS, Pattern(cl100k!(r"\p{N}+"))],
        ignore_merges: true,
        ..BASE
    },
    Spec {
        names: &["gemma4", "granite-embed-multi-311m"],
        steps: &[NEWLINE_RUNS],
        add_bos: true,
        raw_utf8: true,
        escape_spaces: true,
        newline_tokens: true,
        ..BASE
    },
    Spec { names: &["whitespace"], steps: &[Pattern(r"\S+")], raw_utf8: true, ..BASE },
    Spec { names: &["sarvam-moe"], steps: &[NEWLINE_RUNS], raw_utf8: true, escape_spaces: true, ..KEEP },
];
