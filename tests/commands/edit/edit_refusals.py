"""What `vindex edit` refuses, on the files of edit_with_numpy.py."""

import json
import os
import shutil

import numpy as np
from edit_cases import RANDOM, check, close, edit, npy, path, read_folder
from model_files import read_safetensors, write_safetensors


def test_hostile():
    folder, up = path("small"), "model.layers.0.mlp.up_proj.weight"
    good = path("right.safetensors")

    def refused(what, code, identity, *arguments):
        text = edit(*arguments, "-o", path("refused"), code=code)
        check(what, identity in text and text.count("\n") == 1, text)
        check(what + " leaves nothing", not os.path.exists(path("refused")))

    delete = ("delete", folder, "--tensor", up, "--direction")
    refused("zero vector", 65, "E-EDIT-DIRECTION", *delete, npy("zero.npy", np.zeros(16)))
    refused("not finite", 65, "E-EDIT-DIRECTION", *delete, npy("nan.npy", np.full(16, np.nan)))
    refused("wrong length", 65, "--side left fits", *delete, npy("long.npy", np.ones(24)))
    refused("a matrix for a vector", 65, "is 2 x 8; a vector is expected", *delete, npy("flat.npy", np.ones((2, 8))))
    refused("a matrix for a key", 65, "E-EDIT-SHAPE", "insert", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--key", npy("flat.npy", np.ones((2, 12))), "--value", path("d.npy"))
    for shape in ((1, 16), (16, 1)):
        edit(*delete, npy("shaped.npy", np.load(path("v.npy")).reshape(shape)))
    refused("a square matrix", 64, "E-EDIT-SIDE", "delete", folder, "--tensor", "model.layers.0.self_attn.o_proj.weight", "--direction", path("v.npy"))
    refused("a square one of several", 64, "E-EDIT-SIDE", "delete", folder, "--tensors", ".*(o|up)_proj.weight", "--direction", path("v.npy"))
    refused("a feature of a square one", 64, "--side left takes it out of what the matrix writes", "delete", folder, "--tensor",
            "model.layers.0.self_attn.o_proj.weight", "--direction", path("v.npy"))
    both = [edit("delete", folder, "--tensor", "model.layers.0.self_attn.o_proj.weight", "--direction", "singular", 0, *side, "-o", path("side" + "".join(side)))
            for side in ([], ["--side", "left"], ["--side", "right"])]
    changes = [report["matrices"][0]["change"] for report in both]
    check("a singular vector needs no side", np.allclose(changes, changes[0], rtol=1e-6) and [report["side"] for report in both] == ["right", "left", "right"])
    refused("no npy", 65, "E-NPY", *delete, os.path.join(folder, "config.json"))
    refused("no file", 66, "E-", *delete, path("absent.npy"))
    refused("objects", 65, "E-NPY", *delete, npy("object.npy", np.array([{}] * 16)))
    refused("feature beyond", 64, "E-EDIT-FEATURE", *delete, "feature", 24)
    refused("singular beyond", 64, "E-EDIT-DIRECTION", *delete, "singular", 16)
    refused("word", 64, "E-EDIT-DIRECTION", *delete, "feature", "x")
    refused("name", 64, "E-TENSOR", "delete", folder, "--tensor", up + "x", "--direction", path("v.npy"))
    refused("norm", 64, "E-TENSOR", "delete", folder, "--tensor", "model.norm.weight", "--direction", path("v.npy"))
    refused("slice of a matrix", 64, "E-SLICE", "delete", folder, "--tensor", up, "--slice", 0, "--direction", path("v.npy"))
    refused("keys and values", 65, "E-EDIT-SHAPE", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values", path("two.npy"))
    refused("covariance", 65, "not symmetric", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values", path("values.npy"),
            "--covariance", npy("lopsided.npy", np.triu(np.ones((24, 24)))))
    refused("covariance singular", 78, "E-EDIT-SINGULAR", "memit", folder, "--tensor", "model.layers.0.mlp.down_proj.weight", "--keys", path("keys.npy"), "--values",
            path("values.npy"), "--covariance", npy("singular.npy", np.ones((24, 24))))
    a, b = np.ones((1, 16), np.float32), np.ones((24, 1), np.float32)
    own = {"format": "vindex-patch/1"}
    for what, tensors, metadata, identity, code in (
            ("half a pair", {up + ".a": ("F32", a)}, own, "E-PATCH-FORMAT", 65),
            ("ranks", {up + ".a": ("F32", np.ones((2, 16), np.float32)), up + ".b": ("F32", b)}, own, "E-PATCH-FORMAT", 65),
            ("not finite", {up + ".a": ("F32", a * np.inf), up + ".b": ("F32", b)}, {**own, "digests": json.dumps({up: {"before": "0" * 64}})}, "not finite", 65),
            ("integers", {up + ".a": ("I32", a.astype(np.int32)), up + ".b": ("F32", b)}, own, "E-PATCH-FORMAT", 65),
            ("shape", {up + ".a": ("F32", np.ones((1, 15), np.float32)), up + ".b": ("F32", b)}, own, "E-PATCH-SHAPE", 78),
            ("version", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, {"format": "vindex-patch/2"}, "E-PATCH-FORMAT", 65),
            ("no patch", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, None, "E-PATCH-FORMAT", 65),
            ("digests", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, {**own, "digests": "{"}, "E-JSON", 65),
            ("another tensor", {up + "x.a": ("F32", a), up + "x.b": ("F32", b)}, own, "E-PATCH-TENSOR", 65),
            ("a slice of a matrix", {up + "#0.a": ("F32", a), up + "#0.b": ("F32", b)}, own, "E-PATCH-TENSOR", 65),
            ("no digests", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, own, "--accept-unknown-base", 78),
            ("digests of others", {up + ".a": ("F32", a), up + ".b": ("F32", b)}, {**own, "digests": "{\"x\": {\"before\": \"y\"}}"}, "E-PATCH-BASE", 78),
            ("nothing", {}, own, "E-PATCH-FORMAT", 65)):
        write_safetensors(path("hostile.safetensors"), tensors, metadata)
        refused("patch: " + what, code, identity, "apply", folder, "--patch", path("hostile.safetensors"))
    write_safetensors(path("bare.safetensors"), {up + ".a": ("F32", a), up + ".b": ("F32", b)}, own)
    refused("patch: no digests, by force", 78, "E-PATCH-BASE", "apply", folder, "--patch", path("bare.safetensors"), "--accept-findings")
    report = edit("apply", folder, "--patch", path("bare.safetensors"), "--accept-unknown-base", "-o", path("bare"))
    check("an unknown base", report["matrices"][0]["base"] == "unknown")
    close("a patch of an unknown base", read_folder(path("bare"))[up], read_folder(folder)[up] + 1.0)
    # More rank than a side has: the same product, in as few factors as there are rows.
    many_a, many_b = RANDOM.standard_normal((4096, 16)).astype(np.float32), RANDOM.standard_normal((24, 4096)).astype(np.float32)
    write_safetensors(path("wide.safetensors"), {up + ".a": ("F32", many_a), up + ".b": ("F32", many_b)}, own)
    report = edit("apply", folder, "--patch", path("wide.safetensors"), "--accept-unknown-base", "-o", path("wide"), "--save-patch", path("narrow.safetensors"))
    product = many_b.astype(np.float64) @ many_a
    close("a patch of much rank", read_folder(path("wide"))[up], read_folder(folder)[up] + product)
    check("its rank", report["matrices"][0]["rank"] == 16 and read_safetensors(path("narrow.safetensors"))[0][up + ".a"].shape == (16, 16))
    with open(path("cut.safetensors"), "wb") as cut:
        cut.write(open(good, "rb").read()[:-5])
    refused("patch: cut off", 65, "E-ST", "apply", folder, "--patch", path("cut.safetensors"))
    refused("patch: absent", 66, "E-", "apply", folder, "--patch", path("absent.safetensors"))
    # Outputs: over no input, of the model's kind, and not what is there.
    check("over the model", "E-OUTPUT" in edit(*delete, path("v.npy"), "-o", folder, code=73))
    check("over the patch", "E-OUTPUT" in edit("apply", folder, "--patch", good, "-o", path("refused"), "--save-patch", good, "--force", code=73))
    check("kind", "E-OUTPUT-KIND" in edit(*delete, path("v.npy"), "-o", path("refused.gguf"), code=64))
    shutil.copy(os.path.join(folder, "model-00001-of-00002.safetensors"), path("one.safetensors"))
    shutil.copy(os.path.join(folder, "config.json"), path("one.config.json"))
    single = ("delete", path("one.safetensors"), "--tensor", up, "--direction", path("v.npy"))
    edit(*single, "-o", path("one_edited.safetensors"))
    os.makedirs(path("alone"))
    shutil.copy(path("one.safetensors"), path("alone/model.safetensors"))
    edit("delete", path("alone"), *single[2:], "-o", path("alone_edited.safetensors"))
    check("one file of a folder", open(path("alone_edited.safetensors"), "rb").read() == open(path("one_edited.safetensors"), "rb").read())
    check("one file", read_safetensors(path("one_edited.safetensors"))[0][up].tobytes() == read_folder(path("right"))[up].tobytes())
    check("there already", "E-OUTPUT-EXISTS" in edit(*single, "-o", path("one_edited.safetensors"), code=73))
    edit(*single, "-o", path("one_edited.safetensors"), "--force")
    check("over the source", "E-OUTPUT-SOURCE" in edit(*single, "-o", path("one.safetensors"), "--force", code=73))
