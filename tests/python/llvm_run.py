"""Runs instrumented LLVM IR: the integer instructions that the pass emits, and plain branches.

`compile_kernel` turns the text of a kernel into Python; `Cta` is the memory and the clocks that it
runs with. Enough for texts that are made for it: see test_instrument_records.py.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF
SHARED_BASE = 1024  # where @global_smem is in the window of shared memory


@dataclass
class Cta:
    """One CTA's memory. Words are 4 bytes; unwritten ones are `garbage`."""

    index: tuple[int, int, int] = (0, 0, 0)
    grid: tuple[int, int, int] = (1, 1, 1)
    buffer: int = 0
    shared_bytes: int = 0
    garbage: int = 0
    shared: dict[int, int] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)  # global

    def place(self, space: str, address: int, size: int) -> dict[int, int]:
        assert address % size == 0, f"{space}: {size} bytes at {address:#x} are not aligned"
        if space == "shared":
            assert SHARED_BASE <= address <= SHARED_BASE + self.shared_bytes - size, address
            return self.shared
        assert address >= self.buffer > 0, address
        return self.memory

    def store(self, space: str, address: int, size: int, words: list[int]) -> None:
        where = self.place(space, address, size)
        for i, word in enumerate(words):
            where[address + 4 * i] = word & M32

    def load(self, space: str, address: int, size: int) -> list[int]:
        where = self.place(space, address, size)
        return [where.get(address + 4 * i, self.garbage) for i in range(size // 4)]


class Thread:
    """A lane: its clock, and how it chooses its way. All lanes of a warp go the same way."""

    def __init__(self, cta: Cta, tid: int, warp_size: int, start: int, choices: list[int]) -> None:
        self.cta, self.tid, self.warp_size = cta, tid, warp_size
        self.now, self.choices, self.at = start, choices, 0
        self.events: list[tuple[str, int]] = []  # original marker, clock

    def clock(self) -> int:
        self.now += 7
        return self.now

    def choose(self, count: int) -> int:
        """Which of `count` edges is taken; the first when there are no more choices."""
        if self.at == len(self.choices):
            return 0
        self.at += 1
        return self.choices[self.at - 1] % count


def split64(value: int) -> list[int]:
    return [value & M32, value >> 32]


class Translator:
    def __init__(self, profile: str, functions: set[str]) -> None:
        self.profile = profile
        self.functions = functions  # that the text defines
        self.blocks: dict[str, list[str]] = {}
        self.phis: dict[str, list[tuple[str, dict[str, str]]]] = {}

    @staticmethod
    def name(value: str) -> str:
        return "v_" + re.sub(r"\W", "_", value.lstrip("%"))

    def operand(self, text: str) -> str:
        text = text.strip()
        if text == "null":
            return "0"
        if text in ("true", "false"):
            return "1" if text == "true" else "0"
        if text == "@global_smem":
            return str(SHARED_BASE)
        if text == "poison":
            return "None"
        if text.startswith("%"):
            return "cta.buffer" if text == self.profile else self.name(text)
        return str(int(text) & M64) if not text.startswith("-") else str(int(text) & M32)

    def values(self, arguments: str) -> list[str]:
        """The operands of "i32 %a, i64 7"."""
        found = re.findall(r"(?:i\d+|ptr(?: addrspace\(\d\))?) ([%@][\w.]+|-?\d+)", arguments)
        return [self.operand(v) for v in found]

    def asm(self, result: str | None, text: str, arguments: str) -> str:
        v = self.values(arguments)
        left = f"{self.name(result)} = " if result else ""
        if text == "bar.warp.sync 0xffffffff;" or text.startswith(".pragma"):
            return "pass"
        if text.startswith("// proton."):
            return left + "0"  # in a function that is never called
        special = re.fullmatch(r"mov\.u(?:32|64) \$0, %(\w+)(?:\.(\w))?;", text)
        if special:
            axis = "xyz".index(special[2]) if special[2] else 0
            return left + {
                "tid": "thread.tid",
                "laneid": "thread.tid % thread.warp_size",
                "ctaid": f"cta.index[{axis}]",
                "nctaid": f"cta.grid[{axis}]",
                "clock": "thread.clock() & M32",
                "clock64": "thread.clock()",
                "globaltimer": "thread.clock() + 1000",
                "smid": "77",
            }[special[1]]
        if text == "popc.b32 $0, $1;":
            return left + f"bin({v[0]}).count('1')"
        store = re.fullmatch(
            r"(?:@\$(\d) )?st\.(shared|global)\.(?:v(\d)\.)?b(32|64) "
            r"\[\$0(?:\+(\d+))?\], (?:{[$\d, ]+}|\$1);",
            text,
        )
        if store:
            predicate, space, count, bits, offset = store.groups()
            n = int(count or 1)
            size = n * int(bits) // 8
            parts = v[1 : 1 + n]
            words = "+".join(f"split64({p})" if bits == "64" else f"[{p}]" for p in parts)
            call = f"cta.store('{space}', {v[0]} + {offset or 0}, {size}, {words})"
            return f"if {v[int(predicate)]}: {call}" if predicate else call
        product = re.fullmatch(r"mad\.wide\.u32 \$0, \$1, (\d+), \$2;", text)
        if product:
            return left + f"(({v[0]} & {M32}) * {product[1]} + {v[1]}) & {M64}"
        copy = re.fullmatch(
            r"{ \.reg \.b64 %a, %b; (@\$2 )?ld\.shared\.v2\.b64 {%a, %b}, \[\$0\]; "
            r"(@\$2 )?st\.global\.v2\.b64 \[\$1\], {%a, %b}; }",
            text,
        )
        if copy:
            assert copy[1] == copy[2]
            load = f"cta.load('shared', {v[0]}, 16)"
            call = f"cta.store('global', {v[1]}, 16, {load})"
            return f"if {v[2]}: {call}" if copy[1] else call
        raise AssertionError(f"unknown asm: {text}")

    def call(self, result: str | None, name: str, arguments: str) -> str:
        v = self.values(arguments)
        left = f"{self.name(result)} = " if result else ""
        simple = {
            "llvm.amdgcn.workitem.id.x": "thread.tid",
            "llvm.amdgcn.workgroup.id.x": "cta.index[0]",
            "llvm.amdgcn.workgroup.id.y": "cta.index[1]",
            "llvm.amdgcn.workgroup.id.z": "cta.index[2]",
            "llvm.amdgcn.implicitarg.ptr": "('grid', 0)",
            "llvm.readsteadycounter": "thread.clock() + 1000",
            "llvm.readcyclecounter": "thread.clock()",
            "llvm.amdgcn.s.getreg": "77",
        }
        if name in self.functions:
            return f"{left}f_{name}({', '.join(['cta', 'thread', *v])})"
        if name in simple:
            return left + simple[name]
        if name in ("llvm.amdgcn.readfirstlane.i32", "ldmatrix"):
            return left + v[0]
        if name == "llvm.ctpop.i32":
            return left + f"bin({v[0]}).count('1')"
        if name in ("llvm.umin.i32", "llvm.umax.i32"):
            return left + f"{name[6:9]}({v[0]} & {M32}, {v[1]} & {M32})"
        if name in ("llvm.amdgcn.sched.barrier", "llvm.nvvm.cp.async.wait.group"):
            return "pass"
        if name == "choose":
            return left + f"thread.choose({v[0]})"
        if name == "same":
            return f"assert {v[0]} == {v[1]}, ({v[0]}, {v[1]})"
        raise AssertionError(f"unknown call: {name}")

    def arithmetic(self, result: str, op: str, rest: str) -> str | None:
        found = re.match(r"(?:disjoint |nuw |nsw )*(?:(\w+) )?i(\d+) ([^,]+), ([^,!]+)", rest)
        if not found:
            return None
        predicate, bits, a, b = found.groups()
        a, b = self.operand(a), self.operand(b)
        mask = (1 << int(bits)) - 1
        if op == "icmp":
            sign = {"eq": "==", "ne": "!=", "ult": "<"}[predicate]
            return f"{self.name(result)} = int(({a} & {mask}) {sign} ({b} & {mask}))"
        sign = {
            "add": "+",
            "sub": "-",
            "mul": "*",
            "and": "&",
            "or": "|",
            "shl": "<<",
            "lshr": ">>",
            "udiv": "//",
            "urem": "%",
        }.get(op)
        if not sign:
            return None
        text = f"{self.name(result)} = (({a} & {mask}) {sign} ({b} & {mask})) & {mask}"
        if "disjoint" in rest:
            text = f"assert not {a} & {b} & {mask}; {text}"
        return text

    def line(self, line: str) -> str:
        found = re.match(r"(?:(%[\w.]+) = )?(?:tail )?(\w+) ?(.*)", line.strip())
        assert found, line
        result, op, rest = found[1] or "", found[2], found[3]
        for form in (self.called, self.jump, self.value, self.memory, self.arithmetic):
            text = form(result, op, rest)
            if text:
                return text
        raise AssertionError(f"unknown instruction: {line}")

    def called(self, result: str, op: str, rest: str) -> str | None:
        asm = re.match(r'\w+ asm (?:sideeffect )?"([^"]*)", "[^"]*"\((.*)\)', rest)
        if op == "call" and asm:
            return self.asm(result or None, asm[1], asm[2])
        function = re.match(r"(?:fastcc )?(?:ptr addrspace\(\d\)|\w+|{.*}) @([\w.]+)\((.*)\)", rest)
        if op == "call" and function:
            return self.call(result or None, function[1], function[2])
        return None

    def jump(self, _: str, op: str, rest: str) -> str | None:
        if op == "br":
            both = re.match(r"i1 ([^,]+), label (%[\w.]+), label (%[\w.]+)", rest)
            if both:
                a, b = self.name(both[2]), self.name(both[3])
                return f"to = '{a}' if {self.operand(both[1])} else '{b}'"
            only = re.match(r"label (%[\w.]+)", rest)
            assert only, rest
            return f"to = '{self.name(only[1])}'"
        if op == "switch":
            default = re.match(r"i32 (%[\w.]+), label (%[\w.]+)", rest)
            cases = re.findall(r"i32 (\d+), label (%[\w.]+)", rest)
            assert default
            table = {int(k): self.name(v) for k, v in cases}
            other = self.name(default[2])
            return f"to = {table!r}.get({self.operand(default[1])}, '{other}')"
        if op == "ret":
            value = re.match(r"(?:{.*}|\w+) (\S+)", rest)
            return f"return {self.operand(value[1])}" if value else "return thread"
        return None

    def value(self, result: str, op: str, rest: str) -> str | None:
        aggregate = re.match(r"({.*?}) (%[\w.]+|poison), (?:(.*) (\S+), )?(\d)", rest)
        if op in ("insertvalue", "extractvalue") and aggregate:
            whole, at = self.operand(aggregate[2]), aggregate[5]
            if op == "extractvalue":
                return f"{self.name(result)} = {whole}[{at}]"
            value = self.operand(aggregate[4])
            return f"{self.name(result)} = put({whole}, {at}, {value})"
        if op in ("zext", "trunc", "ptrtoint"):
            cast = re.match(r"(?:i\d+|ptr addrspace\(\d\)) ([%@][\w.]+) to i(\d+)", rest)
            assert cast
            return f"{self.name(result)} = {self.operand(cast[1])} & {(1 << int(cast[2])) - 1}"
        if op == "select":
            parts = re.match(r"i1 (\S+), i\d+ (\S+), i\d+ (\S+)", rest)
            assert parts
            c, a, b = (self.operand(p.rstrip(",")) for p in parts.groups())
            return f"{self.name(result)} = {a} if {c} else {b}"
        if op == "insertelement":
            parts = re.match(r"<2 x i32> (\S+), i32 (\S+), i64 (\d)", rest)
            assert parts
            vector, value, at = (self.operand(p.rstrip(",")) for p in parts.groups())
            return f"{self.name(result)} = put({vector}, {at}, {value})"
        if op == "icmp" and "ptr" in rest:
            parts = re.match(r"ne ptr addrspace\(1\) (\S+), null", rest)
            assert parts
            return f"{self.name(result)} = int({self.operand(parts[1].rstrip(','))} != 0)"
        return None

    def memory(self, result: str, op: str, rest: str) -> str | None:
        if op == "getelementptr":
            parts = re.match(r"i8, ptr addrspace\((\d)\) (\S+), i\d+ (\S+)", rest)
            assert parts
            base, step = self.operand(parts[2].rstrip(",")), parts[3]
            step = step if re.fullmatch(r"-\d+", step) else self.operand(step)
            if parts[1] == "4":
                return f"{self.name(result)} = ({base}[0], {base}[1] + {step})"
            return f"{self.name(result)} = {base} + {step}"
        access = re.match(
            r"(<2 x i32>|i32|i64)(?: (\S+))?, ptr addrspace\((\d)\) (\S+), align (\d)", rest
        )
        if op not in ("store", "load") or not access:
            return None
        kind, value, space, address, align = access.groups()
        size = 4 if kind == "i32" else 8
        assert int(align) <= size
        where = self.operand(address.rstrip(","))
        name = {"1": "global", "3": "shared", "4": "constant"}[space]
        if op == "load":
            if name == "constant":
                return f"{self.name(result)} = cta.grid[{where}[1] // 4]"
            return f"{self.name(result)} = cta.load('{name}', {where}, {size})"
        words = self.operand((value or "").rstrip(","))
        if kind == "i64":
            words = f"split64({words})"
        elif kind == "i32":
            words = f"[{words}]"
        return f"cta.store('{name}', {where}, {align}, {words})"

    def phi(self, line: str) -> tuple[str, dict[str, str]] | None:
        found = re.match(r"  (%[\w.]+) = phi i\d+ (.*)", line)
        if not found:
            return None
        ways: dict[str, str] = {}
        for value, block in re.findall(r"\[ ([^,]+), (%[\w.]+) \]", found[2]):
            key, operand = self.name(block), self.operand(value)
            assert ways.setdefault(key, operand) == operand
            ways[key] = operand
        return self.name(found[1]), ways


def join64(words: list[int]) -> int:
    return words[0] | words[1] << 32


def put(vector: list[int] | None, at: int, value: int) -> list[int]:
    vector = list(vector) if vector else [0, 0]
    vector[at] = value
    return vector


def compile_function(name: str, parameters: list[str], body: str, translator: Translator) -> str:
    """The source of a function of the CTA, the thread, and what the text has as parameters."""
    body = re.sub(r"\[\n(.*?)\n  \]", lambda m: m[0].replace("\n", " "), body, flags=re.S)
    results = parameters + re.findall(r"^  (%[\w.]+) = ", body, re.M)
    assert len(results) == len(set(results)), "a value has two definitions"
    names = [translator.name(p) for p in parameters]
    first = re.match(r"\s*([\w.]+):", body)  # LLVM prints none where the entry has no name
    number = str(sum(p[1:].isdigit() for p in parameters))
    entry = translator.name("%" + (first[1] if first else number))
    label, source = entry, [f"def {name}({', '.join(['cta', 'thread', *names])}):"]
    source += [f"    prev, to = None, {entry!r}", "    while True:"]
    blocks: dict[str, list[str]] = {label: []}
    for line in body.splitlines():
        head = re.match(r"([\w.]+):", line)
        if head:
            label = translator.name(head[1])
            assert label not in blocks or (label == entry and not blocks[label]), label
            blocks[label] = []
        elif line.strip():
            blocks[label].append(line)
    for number, (label, lines) in enumerate(blocks.items()):
        source.append(f"        {'el' if number else ''}if to == {label!r}:")
        phis = [phi for phi in map(translator.phi, lines) if phi]
        if phis:
            names = ", ".join(name for name, _ in phis)
            tables = {p for _, ways in phis for p in ways}
            for n, p in enumerate(sorted(tables)):
                values = ", ".join(ways[p] for _, ways in phis)
                test = f"{'el' if n else ''}if prev == {p!r}"
                source.append(f"            {test}: {names} = {values}")
            source.append("            else: raise AssertionError((prev, to))")
        source.append(f"            prev = {label!r}")
        for line in lines:
            if " = phi " not in line:
                source.append("            " + translator.line(line))
    source.append("        else: raise AssertionError(to)")
    return "\n".join(source)


def compile_kernel(text: str) -> Callable[[Cta, Thread], Thread]:
    """The kernel of `text` as a function of the CTA and the thread."""
    head = r"^define ([^\n@]*)@(\w+)\(([^\n]*)\)[ \w]* #\d {\n"
    found = re.findall(head + r"(.*?)^}$", text, re.M | re.S)
    kernels = [name for before, name, _, _ in found if "_kernel " in before]
    assert len(kernels) == 1
    functions = {name for _, name, _, _ in found}
    source = []
    for _, name, parameters, body in found:
        names = re.findall(r"%[\w.]+", parameters)
        profile = names[-1] if name in kernels else ""
        source.append(compile_function(f"f_{name}", names, body, Translator(profile, functions)))
    scope = {"M32": M32, "split64": split64, "join64": join64, "put": put}
    exec("\n".join(source), scope)

    def run(cta: Cta, thread: Thread) -> Thread:
        return scope[f"f_{kernels[0]}"](cta, thread, 5, cta.buffer)  # 5: the kernel's own parameter

    return run
