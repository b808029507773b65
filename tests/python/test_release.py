"""tools/release.py: the metadata and links that it writes."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
URL = "https://git.example.org/team/proton"


@pytest.fixture
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    for name in ("meson.build", "pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "include", tmp_path / "include")
    return tmp_path


def links(text):
    return re.findall(r"\]\(([^()\s]+)\)", text)


def test_the_description_has_absolute_links_only(release, tree):
    before = links((tree / "README.md").read_text())
    release.write_address(tree, URL, "v1.2.3")
    after = links((tree / "README.md").read_text())
    assert len(before) == len(after) and any(not link.startswith("http") for link in before)
    for old, new in zip(before, after):
        if old.startswith("http"):
            assert new == old
            continue
        kind = "tree" if (ROOT / old.split("#")[0]).is_dir() else "blob"
        kind = "raw" if old.endswith(".png") else kind
        assert new == f"{URL}/{kind}/v1.2.3/{old}"
        assert (ROOT / old.split("#")[0]).exists()


def test_the_metadata_names_the_address(release, tree):
    tomllib = pytest.importorskip("tomllib")
    assert "urls" not in tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    release.write_address(tree, URL, "v1.2.3")
    urls = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["urls"]
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith(URL) for url in urls.values())
    for name in ("Documentation", "Changelog"):
        path = urls[name].removeprefix(f"{URL}/blob/v1.2.3/")
        assert (ROOT / path).is_file()


def test_versions_that_differ_are_refused(release, tree):
    version = release.version_of(tree)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## [{version}]", "## [99.0.0]", 1))
    with pytest.raises(SystemExit, match="CHANGELOG"):
        release.version_of(tree)
    header = tree / "include" / "libproton" / "proton.h"
    header.write_text(header.read_text().replace(f'"{version}"', '"99.0.0"'))
    with pytest.raises(SystemExit, match="proton.h"):
        release.version_of(tree)
