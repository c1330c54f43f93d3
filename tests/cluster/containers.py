"""The two descriptions of the container image do the same: Dockerfile and Apptainer definition have the same stages on the same
bases, with the same commands, and the recipes name an image that the Dockerfile's head builds. scripts/checks/container.sh runs
the commands.

Usage: containers.py JOBS_FOLDER"""

import glob
import os
import re
import subprocess
import sys

import yaml

OWN_COPY = "rm -rf build"  # Apptainer has no .dockerignore


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def docker_stages(text):
    """[(default base, [command, ...]), ...]"""
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.M))
    stages = []
    for word, rest in re.findall(r"^(FROM|RUN) (.*)$", text, re.M):
        rest = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match.group(1)], rest)
        if word == "FROM":
            stages.append((rest.split()[0], []))
        else:
            stages[-1][1].extend(rest.split(" && "))
    return stages


def apptainer_stages(text):
    """The same, of a definition."""
    stages = []
    for stage in re.split(r"^Bootstrap: docker$", text, flags=re.M)[1:]:
        arguments = re.search(r"^%arguments\n((?:    .*\n)+)", stage, re.M).group(1)
        defaults = dict(line.strip().split("=", 1) for line in arguments.splitlines())
        stage = re.sub(r"\{\{ (\w+) \}\}", lambda match: defaults[match.group(1)], stage)
        commands = re.search(r"^%post\n((?:    .*\n)+)", stage, re.M).group(1).splitlines()
        stages.append((re.search(r"^From: (\S+)$", stage, re.M).group(1),
                       [line.strip() for line in commands if line.strip() != OWN_COPY and not line.strip().startswith("cd ")]))
    return stages


def images_of(value):
    """Every image that a document names."""
    if isinstance(value, dict):
        named = [str(item) for key, item in value.items() if key in ("image", "image_id")]
        return named + [image for item in value.values() for image in images_of(item)]
    return [image for item in value for image in images_of(item)] if isinstance(value, list) else []


def main():
    jobs = sys.argv[1]
    docker = text_of(f"{jobs}/container/Dockerfile")
    stages = docker_stages(docker)
    assert len(stages) == 2 and all(commands for _, commands in stages), stages
    assert stages == apptainer_stages(text_of(f"{jobs}/container/vindex.def")), "Dockerfile and vindex.def differ"
    for name in ("build.sh", "install.sh"):
        path = f"{jobs}/container/{name}"
        assert os.access(path, os.X_OK) and any(name in command for _, commands in stages for command in commands), name
        subprocess.run(["bash", "-n", path], check=True)
    # Packages are named by scripts/setup.sh and by the package of the program, and nowhere else.
    assert "apt-get" not in docker and "scripts/setup.sh" in text_of(f"{jobs}/container/build.sh")
    built = re.findall(r" -t (\S+)", docker)
    for path in glob.glob(f"{jobs}/*.yaml"):
        images = images_of(yaml.safe_load(text_of(path)))
        assert images and all(image.removeprefix("docker:") in built for image in images), (path, images, built)


if __name__ == "__main__":
    main()
