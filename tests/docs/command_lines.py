"""Owns the check of commands that pages show, whether they are run or not: names, flags, their values and the number of arguments of
`vindex` by `vindex commands --json`; scripts of the repository by their names and flags."""

import re
import shlex
from pathlib import Path

GLOBAL = {"-h", "--help"}
ROOT_ONLY = {"--version", "-h", "--help", "-q", "--quiet", "-v", "--verbose"}
OPERATORS = set("();<>|&")
FOLDERS = ("scripts/", "jobs/", "bench/", "docs/", "tests/")


def simple_commands(text, language="sh"):
    """The simple commands of a shell script, each as its words. Substitutions inside words are not looked into."""
    if language == "console":
        text = "".join(line[2:] + "\n" for line in text.split("\n") if re.match(r"[$>] ", line))
    text = re.sub(r"<<-?\s*'?(\w+)'?(.*\n)(?:.*\n)*?\s*\1\n", r"\2", text)  # here-documents
    pending = ""
    for line in text.replace("\\\n", " ").split("\n"):
        pending += line + "\n"
        lexer = shlex.shlex(pending, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quotation goes on
            continue
        pending = ""
        yield from split_at_operators(words)
    if pending:
        raise ValueError(f"a quotation without an end: {pending.strip().splitlines()[0]}")


def split_at_operators(words):
    command, redirected = [], False
    for word in words:
        if set(word) <= OPERATORS and word:
            redirected = word[0] in "<>"
            if redirected:
                if command and command[-1] in ("1", "2"):
                    command.pop()
            elif command:
                yield command
                command = []
        elif redirected:
            redirected = False
        else:
            command.append(word)
    if command:
        yield command


class Commands:
    """The commands of the program, as `vindex commands --json` lists them."""

    def __init__(self, described, repository):
        self.commands = described["commands"]
        self.groups = {name.split(".")[0] for name in self.commands if "." in name}
        self.repository = Path(repository)
        self.texts, self.flags = {}, set()

    def wrong(self, words, whole=True):
        """What is wrong with a simple command, one text each. `whole` false: arguments may be missing, as in a sentence."""
        for at, word in enumerate(words):
            if word.rsplit("/", 1)[-1] == "vindex" and at + 1 < len(words) and not word.startswith("-"):
                yield from self.wrong_call(words[at + 1:], whole)
                return
            if word.rsplit("/", 1)[-1] == "vindex-serve":
                yield from self.wrong_script("python/vindex/serve", words[at + 1:])
                return
            if word.startswith(FOLDERS) and re.search(r"\.(py|sh)$", word):
                yield from self.wrong_script(word, words[at + 1:])
                return

    def wrong_call(self, words, whole):
        while words and words[0] in ("-q", "-v", "--quiet", "--verbose"):
            words = words[1:]
        if not words or words[0] in ROOT_ONLY:
            return
        command, rest = words[0], words[1:]
        if command in self.groups:
            if not rest or rest[0] in GLOBAL:
                if whole and not rest:
                    yield f"`vindex {command}` needs a command"
                return
            command, rest = f"{command}.{rest[0]}", rest[1:]
        if command == "export" and {"parquet", "arrow"} & set(rest):  # a command of the Python package
            yield from self.wrong_script("python/vindex", rest)
            return
        if command not in self.commands:
            yield f"no command `vindex {command.replace('.', ' ')}`"
            return
        yield from self.wrong_arguments(command, rest, whole)

    def wrong_arguments(self, command, words, whole):
        described, name = self.commands[command], command.replace(".", " ")
        options = {alias: option for option in described["options"] for alias in (option["name"], *option["aliases"])}
        positionals, given, at = [], set(), 0
        while at < len(words):
            word, at = words[at], at + 1
            if not re.match(r"--?[A-Za-z]", word):
                positionals.append(word)
                continue
            flag, equals, value = word.partition("=")
            if flag in GLOBAL:
                return
            if flag not in options:
                yield f"`vindex {name}` has no {flag}"
                continue
            option = options[flag]
            given.add(option["name"])
            if option["type"] != "flag" and not equals:
                value = words[at] if at < len(words) else ""
                at += 1
                if not value and whole:
                    yield f"`vindex {name} {flag}` needs a value"
                while option["many"] and at < len(words) and not words[at].startswith("-"):
                    at += 1
            if option["choices"] and value and not value.isupper() and not set(value.split(",")) <= set(option["choices"]):
                yield f"`vindex {name} {flag} {value}`: one of {', '.join(option['choices'])}"
        if not whole:
            return
        required = sum(one["required"] for one in described["positionals"])
        most = None if any(one["many"] for one in described["positionals"]) else len(described["positionals"])
        if len(positionals) < required or (most is not None and len(positionals) > most):
            yield f"`vindex {name}` takes {required} to {most or 'many'} arguments, not {positionals}"
        for option in described["options"]:
            if option["required"] and option["name"] not in given:
                yield f"`vindex {name}` needs {option['name']}"

    def text_of(self, path):
        if path not in self.texts:
            at = self.repository / path
            files = sorted(at.rglob("*.py")) if at.is_dir() else [at] if at.exists() else []
            self.texts[path] = "\n".join(file.read_text(encoding="utf-8") for file in files)
        return self.texts[path]

    def wrong_script(self, path, words):
        text = self.text_of(path)
        if not text:
            yield f"no file {path}"
            return
        for word in words:
            flag = word.split("=")[0]
            if re.fullmatch(r"--[a-z][\w-]+", flag) and f'"{flag}"' not in text and flag not in text:
                yield f"{path} has no {flag}"

    def wrong_in_prose(self, text):
        """What is wrong with the commands and flags in `code` of sentences."""
        for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
            plain = re.sub(r"\s+", " ", code.replace("\\|", "|"))
            if plain.startswith("vindex "):
                for call in alternatives(re.sub(r"[][]", " ", plain)):
                    for words in simple_commands(call):
                        for what in self.wrong(words, whole=False):
                            yield f"`{plain}`: {what}"
            flag = re.match(r"--[a-z][\w-]+", plain)
            if flag and not self.is_flag(flag[0]):
                yield f"`{plain}`: neither the program nor a script has {flag[0]}"

    def is_flag(self, flag):
        """Whether any command or any script of the repository has it."""
        if not self.flags:
            self.flags = {alias for command in self.commands.values() for option in command["options"]
                          for alias in (option["name"], *option["aliases"])} | ROOT_ONLY
            for folder in ("scripts", "jobs", "bench", "python/vindex"):
                for file in sorted((self.repository / folder).rglob("*")):
                    if file.suffix in (".py", ".sh", "") and file.is_file():
                        self.flags.update(re.findall(r"--[a-z][\w-]+", file.read_text(encoding="utf-8", errors="replace")))
        return flag in self.flags


def alternatives(code):
    """`a b|c d` as `a b d` and `a c d`."""
    found = re.search(r"\S+\|\S+", code)
    if not found:
        return [code]
    return [one for word in found[0].split("|") for one in alternatives(code.replace(found[0], word, 1))]
