"""The stubs: a sample program passes the type checkers, and the stubs name what is there."""

import ast
import importlib
import pathlib
import shutil
import subprocess
import sys

import pytest

SAMPLE = pathlib.Path(__file__).with_name("sample.py")
PACKAGE = pathlib.Path(__file__).parent.parent / "millstream"


def test_the_sample_runs():
    import sample

    assert sample.main() > 0


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=lambda c: c[0])
def test_the_sample_passes(checker):
    program = pathlib.Path(sys.executable).with_name(checker[0])
    if not program.exists() and not shutil.which(checker[0]):
        pytest.skip(f"{checker[0]} is not installed")
    command = [str(program) if program.exists() else checker[0], *checker[1:], SAMPLE.name]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=SAMPLE.parent, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["", "fft", "linalg", "nn", "random"])
def test_stubs_and_modules_have_the_same_names(name):
    module = importlib.import_module("millstream" + ("." + name if name else ""))
    tree = ast.parse((PACKAGE / f"{name or '__init__'}.pyi").read_text())
    stubbed = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            stubbed.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            stubbed.add(node.target.id)
        elif isinstance(node, ast.ImportFrom) and node.level:
            stubbed.update(alias.asname for alias in node.names if alias.asname)
    stubbed = {n for n in stubbed if not n.startswith("_")}
    there = {n for n in dir(module) if not n.startswith("_")}
    assert stubbed == there, (stubbed - there, there - stubbed)
    if not name:
        own = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Array")
        methods = {node.name for node in own.body if isinstance(node, ast.FunctionDef)}
        assert {m for m in methods if not m.startswith("_")} == {m for m in dir(module.Array) if not m.startswith("_")}
