"""The rules of the layout: arrows between packages, the bare cuda/ folder, names, sizes, tests of kernels."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("hpo", "trainer", "search_spaces")
FORBIDDEN_NAMES = re.compile(r"utils?|helpers?|managers?|misc|common|.*_v\d+|.*2")
LONGEST_FILE = 300
LONGEST_FUNCTION = 60


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    """Every module named by an import statement anywhere in a file, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def offenders(paths: list[Path], forbidden: set[str]) -> list[str]:
    """Files that import one of ``forbidden`` or anything inside it."""
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in paths
        for module in sorted(imported_modules(path))
        if any(module == name or module.startswith(f"{name}.") for name in forbidden)
    ]


def test_every_package_has_sources_to_look_at():
    assert all(len(sources(package)) > 1 for package in PACKAGES)


def test_the_trainer_knows_neither_ray_nor_optuna_nor_the_search():
    assert offenders(sources("trainer"), {"ray", "optuna", "hpo", "search_spaces"}) == []


def test_search_spaces_know_the_configuration_alone():
    allowed = {"trainer.config", "search_spaces"}
    standard = {"__future__", "collections.abc", "importlib", "pkgutil"}
    for path in sources("search_spaces"):
        for module in imported_modules(path) - standard:
            assert any(module == name or module.startswith(f"{name}.") for name in allowed), (path, module)


def test_only_the_entry_point_imports_search_spaces():
    rest = [path for path in sources("hpo") if path != ROOT / "hpo" / "__main__.py"]
    assert offenders(rest, {"search_spaces"}) == []
    assert offenders([ROOT / "hpo" / "__main__.py"], {"search_spaces"}) != []


def test_only_the_kernel_launcher_and_the_graph_import_cupy():
    permitted = {ROOT / "trainer" / "kernels" / "loader.py", ROOT / "trainer" / "graph.py"}
    rest = [path for package in PACKAGES for path in sources(package) if path not in permitted]
    assert offenders(rest, {"cupy"}) == []


def test_the_cuda_folder_holds_cuda_sources_only():
    suffixes = {path.suffix for path in (ROOT / "cuda").rglob("*") if path.is_file()}
    assert suffixes
    assert suffixes <= {".cu", ".cuh"}


def test_every_cuda_source_opens_with_a_header_comment_of_the_agreed_fields():
    fields = ("paper", "launch", "compile", "in / out", "determinism", "capture", "reference")
    for path in sorted((ROOT / "cuda").glob("*.cu*")):
        header = path.read_text(encoding="utf-8").split("\n\n")[0].split("#pragma")[0]
        assert header.startswith(f"// {path.stem}: ")
        assert [field for field in fields if f"\n// {field}" not in header] == [], path


COMPILER = {"__init__", "compilation", "cubin_cache", "loader", "nvrtc", "source"}  # of trainer/kernels


def kernels() -> list[Path]:
    return sorted((ROOT / "cuda").glob("*.cu"))


@pytest.mark.parametrize("source", kernels(), ids=lambda path: path.stem)
def test_a_kernel_has_one_name_in_its_source_its_wrapper_and_its_test(source: Path):
    name, text = source.stem, source.read_text(encoding="utf-8")
    entries = re.findall(r'extern "C" __global__[^{;(]*?(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(', text)
    assert entries == [name]
    wrapper = ast.parse((ROOT / "trainer" / "kernels" / f"{name}.py").read_text(encoding="utf-8"))
    assert name in {node.name for node in wrapper.body if isinstance(node, ast.FunctionDef)}
    assert (ROOT / "tests" / "kernels" / f"test_{name}.py").is_file()
    assert f"test  tests/kernels/test_{name}.py" in text


def test_every_wrapper_has_a_kernel_of_its_name():
    wrappers = {path.stem for path in (ROOT / "trainer" / "kernels").glob("*.py")} - COMPILER
    assert wrappers == {path.stem for path in kernels()}


def test_a_kernel_whose_name_a_reference_has_names_it_in_its_header():
    references = {path.stem for path in (ROOT / "trainer" / "reference").glob("*.py")}
    for source in kernels():
        if source.stem in references:
            assert f"// reference    trainer/reference/{source.stem}.py" in source.read_text(encoding="utf-8")


def test_every_file_that_a_cuda_header_names_exists():
    for path in sorted((ROOT / "cuda").glob("*.cu*")):
        header = path.read_text(encoding="utf-8").split("\n\n")[0]
        named = re.findall(r"\b(?:trainer|tests)/[\w/]+\.py", header)
        assert [name for name in named if not (ROOT / name).is_file()] == [], path


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str):
    assert (ROOT / package / "py.typed").is_file()


def test_no_module_is_named_after_nothing_in_particular():
    paths = [path for package in (*PACKAGES, "tests") for path in sources(package)]
    parts = {part for path in paths for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    assert sorted(part for part in parts if FORBIDDEN_NAMES.fullmatch(part)) == []


def test_no_source_file_is_longer_than_three_hundred_lines():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in PACKAGES
        for path in sources(package)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_longer_than_sixty_lines():
    lengths = {
        f"{path.relative_to(ROOT)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for package in PACKAGES
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_every_reference_kernel_has_a_test_of_its_name():
    kernels = {path.stem for path in (ROOT / "trainer" / "reference").glob("*.py")} - {"__init__"}
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "kernels").glob("test_*.py")}
    assert sorted(kernels - tested) == []


def test_no_test_folder_is_a_package():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_link_of_the_documents_leads_to_a_file():
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_commands_import_nothing_heavy_before_they_run():
    heavy = ("ray", "optuna", "torch", "pydantic", "pandas", "numpy", "plotly", "rich")
    script = "import sys, hpo.command_line; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in heavy if name in answer] == []


REFERENCE_TRAINING = """
import sys, tempfile
from pathlib import Path
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.training import run_training

shapes = {
    "data.path": "synthetic:known_answer:400:1", "folds": 2, "min_folds": 1, "epochs": 1, "updates": 2,
    "episodes": 2, "episode_length": 8, "capacity": 64, "batch_size": 8, "trunk_widths": "8", "head_width": 4,
    "num_atoms": 5, "backend": sys.argv[1],
}
config = TrainerConfig.build().with_overrides(shapes)
with tempfile.TemporaryDirectory() as folder:
    run_training(config, load_market(config), Path(folder))
print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_training_without_cuda_imports_nothing_of_the_fused_backend(backend: str):
    answer = subprocess.run(
        [sys.executable, "-c", REFERENCE_TRAINING, backend],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "trainer.agent" in answer
    fused = ("trainer.fused", "trainer.kernels", "trainer.graph", "trainer.cuda_stack", "cupy")
    assert [name for name in answer if name.startswith(fused)] == []
