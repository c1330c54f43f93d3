"""Five questions at the prompt, each answered by one command on one screen of 80 columns, with every statistic beside what noise
gives: questions_in_a_terminal.py VINDEX SHARED_DATA FOLDER. Exit 77 where there are no shared data or no numpy."""
import json
import os
import pty
import re
import struct
import subprocess
import sys

from test_script import fresh_folder

VINDEX, DATA, FOLDER = sys.argv[1], sys.argv[2], sys.argv[3]
COLUMNS, LINES = 80, 40


def path(name):
    return os.path.join(FOLDER, name)


def program(*arguments):
    result = subprocess.run([VINDEX, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, (arguments, result.stderr)
    return result.stdout


def asked(*arguments):
    """What a terminal of 80 columns shows, as lines; standard error is another one's."""
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([VINDEX, *arguments], stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    errors = process.stderr.read().decode()
    assert process.wait() == 0, errors
    lines = text.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
    print("$ vindex", *[os.path.basename(argument) for argument in arguments], *[f"\n{line}" for line in lines], sep=" ")
    assert len(lines) <= LINES, f"{len(lines)} lines: {arguments}"
    wide = [line for line in lines[1:] if len(line) > COLUMNS]  # the first has paths
    assert not wide, wide
    return lines


def heading(lines, first):
    """The words of the heading line that begins with `first`."""
    for line in lines:
        if re.match(rf" *{first}( |$)", line):
            return line.split()
    raise AssertionError(f"no heading {first!r}\n" + "\n".join(lines))


def rows(lines, words):
    """The lines of numbers behind the heading `words`, by column where a line has as many."""
    at = next(i for i, line in enumerate(lines) if line.split() == words)
    out = []
    for line in lines[at + 1:]:
        if len(line.split()) != len(words):
            break
        out.append(dict(zip(words, line.split())))
    return out


def stands_with_null(lines, first, statistics, null="noise"):
    words = heading(lines, first)
    for statistic in statistics:
        assert statistic in words, (statistic, words)
        behind = words[words.index(statistic) + 1:]
        assert null in " ".join(behind[:3]), (statistic, words)
    return words


def which_layers_did_q4_k_m_hurt():
    original = os.path.join(DATA, "moe", "kjv-moe-7.6M-BF16.gguf")
    quantised = os.path.join(DATA, "gguf", "full", "kjv-moe-Q4_K_M.gguf")
    program("compare", original, quantised, "-o", path("q4.h5"), "-q")
    lines = asked("show", path("q4.h5"), "--per-layer")
    words = stands_with_null(lines, "layer", ["error"])
    assert words[:3] == ["layer", "A", "B"]
    # Q6_K and Q4_K apart; the finer format loses less in every layer.
    at = next(i for i, line in enumerate(lines) if line.split()[:3] == ["layer", "A", "B"])
    error = {}
    for line in lines[at + 1:]:
        cells = line.split()
        if len(cells) >= 6 and cells[2] in ("Q4_K", "Q6_K"):
            error[cells[0], cells[2]] = float(cells[4])
    layers = {layer for layer, _ in error}
    assert {"1", "2", "3"} <= layers, error
    for layer in layers:
        if (layer, "Q6_K") in error and (layer, "Q4_K") in error:
            assert error[layer, "Q6_K"] < error[layer, "Q4_K"], error
    # Of many layers the ones that suffered more than their kind.
    worst = json.loads(program("show", path("q4.h5"), "--per-layer", "--top", "4", "--json"))["groups"]
    over = [group["relative_error_over_kind"] for group in worst]
    assert len(over) == 4 and over == sorted(over, reverse=True) and over[0] > 1
    # The same as a document, and the pairs behind it.
    document = json.loads(program("show", path("q4.h5"), "--per-layer", "--layer", "1-3", "--json"))
    assert {group["layer"] for group in document["groups"]} == {1, 2, 3}
    worst = json.loads(program("show", path("q4.h5"), "--top", "3", "--by", "relative_error", "--role", "down_proj", "--json"))["rows"]
    errors = [row["relative_error"] for row in worst]
    assert len(errors) == 3 and errors == sorted(errors, reverse=True) and all(row["role"] == "down_proj" for row in worst)
    everything = json.loads(program("show", path("q4.h5"), "--top", "100000", "--json"))["rows"]
    assert errors == sorted((row["relative_error"] for row in everything if row["role"] == "down_proj"), reverse=True)[:3]
    top = asked("show", path("q4.h5"), "--top", "8")
    stands_with_null(top, "layer", ["error"])
    names = [line.split()[-1] for line in top[2:10]]
    assert len(set(names)) == 8 and not any("..." in name or name.endswith(".weight") for name in names), names


def which_experts_of_layer_3_stand_out():
    program("synth", "kimi-k2-mini-bf16", "-o", path("mini"))
    program("experts", path("mini"), "-o", path("experts.h5"), "--k", "8", "-q")
    lines = asked("show", path("experts.h5"), "--layer", "3")
    stands_with_null(lines, "layer", ["cosine", "max"])
    text = " ".join(" ".join(lines).split())
    assert "overlap of the top K singular subspaces" in text and "by chance" in text
    document = json.loads(program("show", path("experts.h5"), "--layer", "3", "--json"))
    for one in document["outlying"]:
        assert one["layer"] == 3 and abs(one["z"]) > one["z_null_q95"] > 2
    shown = [line for line in lines if re.match(r" +3 +\w+ +\d+ +(norm|mean cosine|nearest)", line)]
    assert len(shown) == min(12, len(document["outlying"])), (shown, document["outlying"])
    for line in shown:
        assert len(line.split()) >= 8  # value, median, z and the z of noise


def of_what_rank_is_this_lora(numpy):
    """Rank 4 within factors of rank 8 for v_proj, all 8 for q_proj."""
    random = numpy.random.default_rng(1)
    tensors = {}
    for layer in range(4):
        for role, kept in (("q_proj", 8), ("v_proj", 4)):
            name = f"base_model.model.model.layers.{layer}.self_attn.{role}.lora_"
            tensors[name + "A.weight"] = random.standard_normal((8, 64))
            tensors[name + "B.weight"] = random.standard_normal((96, 8)) * (numpy.arange(8) < kept)
    os.makedirs(path("lora"))
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path("lora/adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(path("lora/adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": 8, "lora_alpha": 16}, file)
    program("measure", path("lora"), "-o", path("lora.h5"), "--lora", "-q")
    lines = asked("show", path("lora.h5"))
    words = stands_with_null(lines, "block", ["rank", "eff.rank", "stable"])
    found = {row["role"]: row for row in rows(lines, words)}
    assert found["q_proj"]["rank"] == "8" and found["v_proj"]["rank"] == "4", found
    assert words[words.index("rank") + 1] == "noise" and "8" in lines[lines.index(next(l for l in lines if "v_proj" in l))].split()
    assert "/product/" in lines[0]


def are_these_two_models_alike(numpy):
    random = numpy.random.default_rng(2)
    base = random.standard_normal((240, 20))
    for name, layers, width, shared in (("a", 6, 32, 1.0), ("b", 8, 40, 1.0)):
        os.makedirs(path(name))
        numpy.save(path(f"{name}/token_ids.npy"), numpy.arange(240) % 50)
        numpy.save(path(f"{name}/prompt.npy"), numpy.repeat(numpy.arange(30), 8))
        state = shared * base
        for layer in range(layers):
            state = state + 0.5 * random.standard_normal(state.shape)
            numpy.save(path(f"{name}/hidden.{layer}.npy"), (state @ random.standard_normal((20, width))).astype("f4"))
    program("cka", path("a"), path("b"), "-o", path("cka.h5"), "-q")
    lines = asked("show", path("cka.h5"))
    words = next(line.split() for line in lines if line.split()[:1] == ["A\\B"])
    assert words[1:] == [str(layer) for layer in range(8)]
    depths = [line.split() for line in lines if re.match(r" *\d+ %", line)]
    pairs = [(cells[2], cells[3]) for cells in depths]
    assert len(pairs) == len(set(pairs)) >= 6, "depths once"
    for cells in depths:
        value, low, high, noise = (float(cells[i]) for i in (4, 5, 7, 8))
        assert low <= value <= high and noise < value, cells
    matched = {(str(one["layer_a"]), str(one["layer_b"])): one["cka"] for one in json.loads(program("show", path("cka.h5"), "--json"))["matched"]}
    assert all(abs(matched[cells[2], cells[3]] - float(cells[4])) < 5e-3 for cells in depths)


def what_reads_the_token_mom():
    model = os.path.join(DATA, "stories260k", "stories260K.gguf")
    lines = asked("lookup", model, "--token", "mom", "--top", "5")
    text = " ".join(" ".join(lines).split())
    assert "mom" in text and "95 % point" in text, text
    # A p says what it is of, and stands in one line.
    assert len(re.findall(r", p = [\d.e-]+ \(random rows\)$", "\n".join(lines), re.MULTILINE)) == 2, lines


def main():
    if not os.path.isdir(os.path.join(DATA, "moe")):
        print("shared data not found")
        sys.exit(77)
    import numpy

    fresh_folder(FOLDER)
    which_layers_did_q4_k_m_hurt()
    which_experts_of_layer_3_stand_out()
    of_what_rank_is_this_lora(numpy)
    are_these_two_models_alike(numpy)
    what_reads_the_token_mom()


main()
