#!/usr/bin/env python3
"""Renders chat templates with Python's Jinja2, in the environment of Hugging Face's apply_chat_template.

    python3 tools/oracle/chat_templates.py                    (needs jinja2)
        writes crates/rustorch-llm/tests/fixtures/chat/expected.json from the templates beside it
    python3 tools/oracle/chat_templates.py DIR OUT.json
        the same for any folder of *.jinja files

The templates are those that the models' publishers ship (tokenizer_config.json).
"""
import datetime, glob, json, os, sys
import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FIXTURES = os.path.join(os.path.dirname(__file__), "../../crates/rustorch-llm/tests/fixtures/chat")
NOW = datetime.datetime(2024, 7, 26, 9, 5, 3, tzinfo=datetime.timezone.utc)

TALK = [{"role": "user", "content": "Hello, who are you?"},
        {"role": "assistant", "content": "  I'm a \"model\" <b>&amp;</b>.\n"},
        {"role": "user", "content": " Ünïcödé 🦙\n\nand 'quotes'? "}]
CONVERSATIONS = {
    "one": TALK[:1],
    "talk": TALK,
    "system": [{"role": "system", "content": " Be brief.\n"}] + TALK,
    "refused": [{"role": "assistant", "content": "First!"}, {"role": "assistant", "content": "Second!"}],
    "empty": [{"role": "user", "content": ""}],
}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "It's <hot> & \"cold\"",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
VARIABLES = {"plain": {}, "thinking": {"enable_thinking": False}, "tools": {"tools": TOOLS}}


class Refused(Exception):
    pass


def raise_exception(message):
    raise Refused(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(1)


def render(source, messages, prompt, variables):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    try:
        return {"text": env.from_string(source).render(messages=messages, add_generation_prompt=prompt,
                                                       bos_token="<s>", eos_token="</s>", **variables)}
    except Refused as e:
        return {"refused": str(e)}
    except Exception as e:  # a template may fail on a conversation in Python too
        return {"failed": f"{type(e).__name__}: {e}"}


def main():
    folder, out = (sys.argv[1], sys.argv[2]) if len(sys.argv) == 3 else (FIXTURES, os.path.join(FIXTURES, "expected.json"))
    cases = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        source = open(path, encoding="utf-8", newline="").read()
        for name, messages in CONVERSATIONS.items():
            for which, variables in VARIABLES.items():
                if which != "plain" and name != "system":
                    continue
                for prompt in (True, False) if name == "talk" else (True,):
                    cases.append({"template": os.path.basename(path)[:-6], "conversation": name, "prompt": prompt,
                                  "variables": which, **render(source, messages, prompt, variables)})
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"now": int(NOW.timestamp()), "conversations": CONVERSATIONS, "variables": VARIABLES, "cases": cases},
                  f, ensure_ascii=False, indent=0)
        f.write("\n")
    print(len(cases), "cases,", sum("text" in c for c in cases), "rendered,", os.path.getsize(out), "bytes")


main()
