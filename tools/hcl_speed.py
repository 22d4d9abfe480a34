"""How fast the HCL reader is: 500 files, 1.7 MB of ordinary Terraform. Prints figures; judges nothing."""

from __future__ import annotations

import time

from holdfast.hcl.nodes import Body, walk
from holdfast.hcl.reader import read

_FILES = 500
_SIZE = 3_400

_RESOURCE = """
resource "aws_instance" "server_{n}" {{
  count         = var.create ? 1 : 0
  ami           = data.aws_ami.chosen.id
  instance_type = lookup(var.sizes, "server_{n}", "t3.micro")
  user_data     = templatefile("${{path.module}}/files/boot.sh", {{ name = "server-{n}", zone = local.zone }})
  tags = merge(var.tags, {{
    Name  = "${{var.company}}-${{var.environment}}-server-{n}"
    Owner = "platform" # who to ask
  }})

  root_block_device {{
    volume_size = 20 + {n}
    encrypted   = true
  }}
}}

locals {{
  rules_{n} = [for port in [80, 443, 8080] : {{ port = port, open = port != 8080 }} if var.public]
}}
"""


def main() -> None:
    one = ""
    number = 0
    while len(one) < _SIZE:
        one += _RESOURCE.format(n=number)
        number += 1
    texts = [one.encode()] * _FILES
    total = sum(map(len, texts)) / 1_000_000
    began = time.perf_counter()
    files = [read(text, f"f{n}.tf") for n, text in enumerate(texts)]
    blocks = sum(len(file.body.blocks) for file in files)
    parsed = time.perf_counter()
    expressions = sum(_count(file.body) for file in files)
    done = time.perf_counter()
    print(f"{len(files)} files, {total:.2f} MB, {blocks} blocks at the top: {parsed - began:.2f} s")
    print(f"every expression of them ({expressions}): {done - parsed:.2f} s more")


def _count(body: Body) -> int:
    inside = sum(1 for attribute in body.attributes for _ in walk(attribute.expression))
    return inside + sum(_count(block.body) for block in body.blocks)


if __name__ == "__main__":
    main()
