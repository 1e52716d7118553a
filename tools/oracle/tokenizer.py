#!/usr/bin/env python3
"""Writes crates/rustorch-llm/tests/fixtures/tokenizer/{corpus,expected}.json: what llama.cpp makes of difficult texts.

    python3 tools/oracle/tokenizer.py DATA      (needs llama-cpp-python, gguf, numpy)

DATA holds vocab/ggml-vocab-*.gguf and text/tinyshakespeare.txt. For every vocabulary: ids of the corpus (plain, and
with special tokens added and parsed), ids of tinyshakespeare, the pieces of all tokens, and which tokens end a
generation. For every pre-tokenizer name: ids of the corpus with a vocabulary of all pairs of bytes, which show the split. For WordPiece with
lower-casing and with accent stripping: ids of every code point below U+32000 that this Python's Unicode has, between letters, with a vocabulary of all of them. Ids are kept as
their number and the FNV-1a hash of their little-endian bytes, texts being separated by 0xFFFFFFFF.
"""
import ctypes, json, os, random, re, struct, sys, tempfile, unicodedata
import numpy as np
import gguf
import llama_cpp

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/rustorch-llm/tests/fixtures/tokenizer")
VOCABS = ["llama-spm", "phi-3", "llama-bpe", "qwen2", "gpt-2", "falcon", "deepseek-llm", "bert-bge"]
PLACEHOLDER = "NAME-OF-THE-PRE-TOKENIZER"
PIECES = [
    *"the The THE Hello world hello HelloWorld XMLHttpRequest it's I'M they'LL we've You'Re 'tis d'accord can't".split(),
    " a", " the", " of", "ing", "tion", "x", "Z", "_", "__init__", "fooBar2", "0", "7", "12", "123", "1234", "1234567",
    "1234567890123", "3.14159", "1,000,000", "٣٤٥٦", "१२३४", "²³", "Ⅷ", "½", "๑๒๓๔", "①", " 42", "0x1F",
    ".", ",", "!", "?!", "...", "…", "--", "—", "(", ")", "[", "]]", "{", "}", "<", ">", "<=", "->", "$", "$$", "€", "+",
    "=", "==", "^", "~", "|", "||", "`", "```", "\\", "/", "//", "#", "@", "%", "&", "*", "\"", "'", "''", "“", "”", "’", "、",
    "。", "！", "～", "，", "：", "「", "」", "·", "§", "©", "™", "°", "±", "∑", "→", "≠", "¿", "¡", "،", "۔",
    " ", "  ", "   ", "     ", "         ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", " \n", "\n ", " \n \n  ", "\t \n",
    "\u00a0", "\u3000", "\u2028", "\u0085", "\u000b", "\u000c", "\u2009", "\u200b", "\ufeff", "\u001c", "\u0001", "\u007f",
    "漢字", "中文", "我想", "がぎ", "ひらがな", "カタカナ", "ｱｲｳ", "々", "〇", "한국어", "ㄱㄴ", "ㅎ", "ㄅㄆ", "𠀀𠀁", "﨑",
    "ไทย", "ลาว", "ລາວ", "ខ្មែរ", "မြန်မာ", "हिन्दी", "नमस्ते", "தமிழ்", "বাংলা", "عربي", "مَرْحَبًا", "עִבְרִית", "Ελληνικά", "Русский", "Български", "ქართული",
    "é", "e\u0301", "n\u0303o", "ñ", "ü", "Ü", "ß", "ẞ", "İ", "ı", "ſ", "ǅ", "ʰ", "ª", "µ", "Å", "ﬁ", "𝔘𝔫𝔦", "𐐀𐐨", "K",
    "🦙", "🚀", "👩‍👩‍👧", "🇧🇬", "👍🏽", "✅", "☺️", "\u0301", "\u0300\u0301", "\u0378", "\ue000", "\ufffd", "\U000e0041", "\U0010ffff",
    "<sentinel:12>", "<sentinel:>", "IMGIMGABCZ", "IMGIMGZ", "</s>", "<s>", "<unk>", "<|endoftext|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>",
    "<|user|>", "<|end|>", "<|assistant|>\n", ">>TITLE<<", "<0x0A>", "▁", "▁▁the", "Ġ", "Ċ", "[UNK]",
]


def corpus():
    rng = random.Random(20240726)
    assigned = [c for c in range(0x80, 0x32000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    texts = ["", " ", "\n", "a", "'", "''s", "1", "12345", "▁"]
    while len(texts) < 700:
        count = rng.choice([1, 2, 3, 5, 8, 13, 21])
        parts = []
        for _ in range(count):
            kind = rng.random()
            if kind < 0.08:
                parts.append("".join(chr(rng.choice(assigned)) for _ in range(rng.randint(1, 3))))
            elif kind < 0.3:
                parts.append(" " + rng.choice(PIECES[:20]))
            else:
                parts.append(rng.choice(PIECES))
        texts.append("".join(parts))
    return texts


def fnv(data, h=0xCBF29CE484222325):
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def digest(lists):
    data = b"".join(np.array(ids + [0xFFFFFFFF], dtype="<u4").tobytes() for ids in lists)
    return {"count": sum(map(len, lists)), "fnv": f"{fnv(data):016x}"}


class Vocab:
    def __init__(self, path):
        self.model = llama_cpp.Llama(path, vocab_only=True, verbose=False)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model.model)

    def encode(self, text, special):
        data = text.encode("utf-8")
        size = 4 * len(data) + 16
        out = (llama_cpp.llama_token * size)()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), out, size, special, special)
        assert n >= 0
        return list(out[:n])

    def piece(self, token):
        buffer = ctypes.create_string_buffer(1024)
        n = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 1024, 0, True)
        assert n >= 0
        return buffer.raw[:n]

    def close(self):
        self.model.close()


def names():
    source = open(os.path.join(FIXTURES, "../../../src/tokenizer/pretokenizer/table.rs"), encoding="utf-8").read()
    source = source[source.index("pub(super) const SPECS"):]
    found = [n for block in re.findall(r"names: &\[(.*?)\]", source, re.S) for n in re.findall(r'"([^"]+)"', block)]
    # llama.cpp aborts where this one meets two spaces, which its own tokenizer leaves out before; `tokenizer_made.py` has both.
    return [n for n in found if n != "whitespace"]


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def pairs_vocab(out):
    """All bytes and all pairs of bytes, every pair merging: the tokens of a text show where it was split."""
    byte = byte_characters()
    writer = gguf.GGUFWriter(out, "gpt2")
    writer.add_context_length(1024); writer.add_embedding_length(8); writer.add_block_count(1)
    writer.add_feed_forward_length(8); writer.add_head_count(1); writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PLACEHOLDER)
    writer.add_token_list(byte + [a + b for a in byte for b in byte])
    writer.add_token_types([1] * (256 + 65536))
    writer.add_token_merges([a + " " + b for a in byte for b in byte])
    writer.add_bos_token_id(0); writer.add_eos_token_id(0)
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()


def code_points():
    return [chr(c) for c in range(1, 0x32000) if not 0xD800 <= c < 0xE000]


def assigned_ranges():
    """First and last code points, one after the other, of those that tables of a later Unicode do not class differently."""
    ends = []
    for c in map(ord, code_points()):
        if unicodedata.category(chr(c)) == "Cn":
            continue
        if ends and ends[-1] + 1 == c:
            ends[-1] = c
        else:
            ends += [c, c]
    return ends


def code_points_vocab(out, lowercase, strip_accents):
    """WordPiece with the special tokens of BERT, and every code point as a word and within one."""
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_context_length(1024); writer.add_embedding_length(8); writer.add_block_count(1)
    writer.add_feed_forward_length(8); writer.add_head_count(1); writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("bert")
    words = [f"[unused{i}]" for i in range(104)] + ["▁" + c for c in code_points()] + code_points()
    writer.add_token_list([word.encode() for word in words])
    writer.add_token_types([1] * len(words))
    writer.add_token_type_count(2)
    writer.add_bool("tokenizer.ggml.normalizer.lowercase", lowercase)
    writer.add_bool("tokenizer.ggml.normalizer.strip_accents", strip_accents)
    writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file(); writer.close()


def main():
    data = sys.argv[1]
    texts = corpus()
    os.makedirs(FIXTURES, exist_ok=True)
    with open(os.path.join(FIXTURES, "corpus.json"), "w", encoding="utf-8") as f:
        json.dump(texts, f, ensure_ascii=False, indent=0); f.write("\n")
    shakespeare = open(os.path.join(data, "text/tinyshakespeare.txt"), encoding="utf-8").read()
    vocabs, lines = {}, {}
    for name in VOCABS:
        v = Vocab(os.path.join(data, f"vocab/ggml-vocab-{name}.gguf"))
        tokens = llama_cpp.llama_vocab_n_tokens(v.vocab)
        pieces = b"".join(v.piece(t) + b"\xff\xfe" for t in range(tokens))
        ids = {special: [v.encode(t, special) for t in texts] for special in (False, True)}
        vocabs[name] = {"plain": digest(ids[False]), "special": digest(ids[True]),
                        "shakespeare": digest([v.encode(shakespeare, False)]), "tokens": tokens,
                        "pieces": f"{fnv(pieces):016x}",
                        "eog": [t for t in range(tokens) if llama_cpp.llama_vocab_is_eog(v.vocab, t)]}
        lines[name] = [ids[False], ids[True]]
        v.close()
        print(name, vocabs[name])
    pres = {}
    with tempfile.TemporaryDirectory() as folder:
        pairs_vocab(os.path.join(folder, "pairs.gguf"))
        template = open(os.path.join(folder, "pairs.gguf"), "rb").read()
        old = struct.pack("<Q", len(PLACEHOLDER)) + PLACEHOLDER.encode()
        assert template.count(old) == 1
        for pre in names():
            path = os.path.join(folder, "v.gguf")
            open(path, "wb").write(template.replace(old, struct.pack("<Q", len(pre)) + pre.encode()))
            v = Vocab(path)
            ids = [v.encode(t, False) for t in texts]
            pres[pre] = digest(ids)
            lines["pre:" + pre] = [ids]
            v.close()
            print(pre, pres[pre])
    ranges = assigned_ranges()
    words = {"ranges": " ".join(map(str, ranges))}
    wrapped = [f"a{chr(c)}a" for first, last in zip(ranges[::2], ranges[1::2]) for c in range(first, last + 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "v.gguf")
        for lowercase, strip_accents in [(True, False), (False, True)]:
            code_points_vocab(path, lowercase, strip_accents)
            v = Vocab(path)
            ids = [v.encode(text, False) for text in wrapped]
            name = "lowercase" if lowercase else "strip_accents"
            words[name] = digest(ids)
            lines["wpm:" + name] = [ids]
            v.close()
            print(name, words[name])
    with open(os.path.join(FIXTURES, "expected.json"), "w") as f:
        json.dump({"vocabs": vocabs, "pres": pres, "wpm": words}, f, indent=0); f.write("\n")
    if len(sys.argv) > 2:  # every id, to look into differences
        json.dump(lines, open(sys.argv[2], "w"))


if __name__ == "__main__":
    main()
