"""What the code does not name, and modules that are not in Git, are in the work directory of a real run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from program import Program

CONFIGURATION = """
version: 1
environments: { dev: {} }
ignores: ["**/generated.json"]
stacks:
  - folder: live/{name}
    name: "{name}"
    environment: dev
    reads: ["catalog/{name}"]
"""


def test_a_provisioner_finds_every_file_and_counts_few(holdfast: Program) -> None:
    """Its script reads a file that nothing names. Only what is named, or listed, selects the stack."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write(
        "live/app/main.tf",
        """
        resource "terraform_data" "a" {
          input = file("${path.module}/generated.json")
          provisioner "local-exec" {
            command = "sh ../../scripts/run.sh"
          }
        }
        """,
    )
    holdfast.write("live/app/generated.json", "{}")
    holdfast.write("live/other/main.tf", 'output "x" {\n  value = 1\n}\n')
    holdfast.write("scripts/run.sh", "test -f ../../shared/words.txt && test -f ../../catalog/app/a.yaml\n")
    holdfast.write("shared/words.txt", "words")
    holdfast.write("catalog/app/a.yaml", "a: 1\n")
    holdfast.write("catalog/other/b.yaml", "b: 1\n")
    holdfast.commit_all()
    assert holdfast.run("apply", "--yes").code == 0
    [tree] = holdfast.home.glob("work/*/other/0/tree")
    assert (tree / "catalog/other/b.yaml").is_file()
    assert not (tree / "catalog/app/a.yaml").exists()

    def selected(*files: str) -> list[str]:
        for file in files:
            holdfast.write(file, "changed")
        document = holdfast.json("stacks", "--since", "main")
        holdfast.git("checkout", "--quiet", ".")
        holdfast.git("clean", "--quiet", "--force", "-d")
        assert document["ignored"] == (
            [{"stack": "app", "files": ["live/app/generated.json"]}]
            if "live/app/generated.json" in files
            else []
        )
        return [stack["name"] for stack in document["stacks"]]

    assert selected("shared/words.txt", "README.md", "live/app/notes.txt") == []
    assert selected("live/app/generated.json") == []
    assert selected("scripts/run.sh") == ["app"]
    assert selected("catalog/other/new.yaml") == ["other"]


def test_downloaded_and_ignored_modules_are_planned(holdfast: Program, tmp_path: Path) -> None:
    """A module in `.terraform/modules` exists only after init; one that Git ignores is copied like others."""
    library = tmp_path / "library"
    for path, text in {
        "main.tf": 'output "x" {\n  value = "library"\n}\n',
        "modules/sub/main.tf": 'output "y" {\n  value = "sub"\n}\n',
    }.items():
        (library / path).parent.mkdir(parents=True, exist_ok=True)
        (library / path).write_text(text)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(library))
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "one")):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write(
        "live/app/main.tf",
        f"""
        module "a_sub" {{
          source = "./.terraform/modules/library/modules/sub"
        }}
        module "library" {{
          source = "git::file://{library}?ref=HEAD"
        }}
        module "vendored" {{
          source = "../../vendor/modules/queue"
        }}
        output "all" {{
          value = "${{module.a_sub.y}} ${{module.library.x}} ${{module.vendored.z}}"
        }}
        """,
    )
    holdfast.write("vendor/modules/queue/main.tf", 'output "z" {\n  value = "queue"\n}\n')
    holdfast.write(
        "vendir.yml", "directories:\n  - path: vendor\n    contents:\n      - path: modules/queue\n"
    )
    holdfast.write(".gitignore", "vendor/\n.holdfast/\n")
    holdfast.commit_all()
    assert holdfast.run("apply", "--yes").code == 0
    assert holdfast.run("output", "app", "all", "--raw").out.strip() == "sub library queue"
    found = holdfast.json("check")
    assert [finding for finding in found["findings"] if finding["rule"] == "HF904"] == []
    holdfast.write(
        "vendir.yml", "directories:\n  - path: vendor\n    contents:\n      - path: modules/queue\n\n"
    )
    document = holdfast.json("stacks", "--since", "main")
    assert [stack["reasons"][0] for stack in document["stacks"]] == ["reads vendir.yml"]
