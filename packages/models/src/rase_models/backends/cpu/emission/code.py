"""What kernels are written with when they are emitted as LLVM IR: addresses, vectors, and loops.

It knows llvmlite and the instruction set, and not numba, so IR can be made for another machine, too. Every
pointer is an int64.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from rase_models.backends.cpu.emission.types import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    LANES,
    VOID,
    Value,
    constant,
    every_byte,
    retype,
    vector,
)
from rase_models.backends.cpu.instruction_set import InstructionSet

ROUNDING_MAGIC = 12582912.0
"""1.5 * 2**23: adding it to |x| < 2**22 leaves x rounded half to even in the low bits."""
_MAGIC_BITS = 0x4B400000


class Code:
    """An LLVM IR builder with vectors, raw addresses and an instruction set.

    Attributes:
        builder: the llvmlite builder.
        instruction_set: what the emitted code may use.
    """

    def __init__(self, builder: ir.IRBuilder, instruction_set: InstructionSet) -> None:
        self.builder = builder
        self.instruction_set = instruction_set

    def call(self, name: str, result: ir.Type, arguments: Sequence[Value]) -> Value:
        """Call a function of the module, declaring it on first use; LLVM intrinsics are called so."""
        function = self.builder.module.globals.get(name)
        if function is None:
            signature = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(self.builder.module, signature, name)
        return self.builder.call(function, list(arguments))

    # Addresses and memory.

    def at(self, address: Value, offset: int | Value) -> Value:
        """Return `address` plus `offset` bytes."""
        if isinstance(offset, int):
            return self.builder.add(address, constant(I64, offset)) if offset else address
        return self.builder.add(address, offset)

    def times(self, value: Value, factor: int) -> Value:
        """Return an int64 times a constant."""
        return self.builder.mul(value, constant(I64, factor))

    def pointer(self, address: Value, type_: ir.Type) -> Value:
        """Turn an address into a pointer to `type_`."""
        return self.builder.inttoptr(address, type_.as_pointer())

    def load(self, address: Value, type_: ir.Type, align: int = 1) -> Value:
        """Load a value of `type_`."""
        return self.builder.load(self.pointer(address, type_), align=align, typ=type_)

    def store(self, address: Value, value: Value, align: int = 1) -> None:
        """Store a value."""
        self.builder.store(value, self.pointer(address, value.type), align=align)

    def prefetch(self, address: Value, locality: int) -> None:
        """Ask for a cache line; locality 3 is the first level, 2 the second, 1 the third, 0 non-temporal."""
        hints = [constant(I32, hint) for hint in (0, locality, 1)]
        self.call("llvm.prefetch.p0", VOID, [self.pointer(address, I8), *hints])

    def opaque(self, address: Value) -> Value:
        """Hide where an int64 came from.

        It keeps LLVM from giving loads a base and an index register, which do not fuse with a dot product.
        """
        signature = ir.FunctionType(I64, [I64])
        return self.builder.call(ir.InlineAsm(signature, "", "=r,0", side_effect=False), [address])

    # Vectors.

    def splat(self, value: Value, lanes: int = LANES) -> Value:
        """Fill a vector with one value."""
        undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, constant(I32, 0))
        return self.builder.shuffle_vector(first, undefined, constant(ir.VectorType(I32, lanes), 0))

    def load_splat(self, address: Value, type_: ir.Type, lanes: int = LANES) -> Value:
        """Load one 4-byte value into all lanes."""
        return self.splat(self.load(address, type_, 4), lanes)

    def shuffle(self, first: Value, second: Value, lanes: Sequence[int]) -> Value:
        """Pick lanes out of two vectors."""
        return self.builder.shuffle_vector(first, second, constant(ir.VectorType(I32, len(lanes)), lanes))

    def part(self, vector: Value, width: int, index: int) -> Value:
        """Return lanes `index * width` to `(index + 1) * width`."""
        return self.shuffle(vector, vector, range(index * width, (index + 1) * width))

    def join(self, parts: Sequence[Value]) -> Value:
        """Put vectors, a power of two of them, one after the other."""
        while len(parts) > 1:
            lanes = range(2 * parts[0].type.count)
            parts = [
                self.shuffle(low, high, lanes) for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def lane(self, vector: Value, index: int) -> Value:
        """Return one lane."""
        return self.builder.extract_element(vector, constant(I32, index))

    def any_lane(self, vector: Value, index: Value) -> Value:
        """Return the lane with an int64 index that is not known yet, by way of memory.

        LLVM 22 fails on an assertion when it moves such an extraction before the operation that made the
        vector.
        """
        slot = self.builder.ptrtoint(self.variable(vector), I64)
        element = vector.type.element
        return self.load(self.at(slot, self.times(index, 4)), element, 4)

    def fold(self, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Reduce a vector to a scalar, the upper half onto the lower until one is left."""
        while vector.type.count > 1:
            half = vector.type.count // 2
            low = self.shuffle(vector, vector, range(half))
            vector = combine(low, self.shuffle(vector, vector, range(half, 2 * half)))
        return self.lane(vector, 0)

    # Arithmetic, of scalars and vectors alike.

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """Return x * y + z in float32 with one rounding."""
        if not self.instruction_set.has_fma:
            return self._fma_in_double(x, y, z)
        count = f"v{x.type.count}" if isinstance(x.type, ir.VectorType) else ""
        return self.call(f"llvm.fma.{count}f32", x.type, [x, y, z])

    def _fma_in_double(self, x: Value, y: Value, z: Value) -> Value:
        """Emulate fma: an exact product in double, and a sum rounded to odd before it is rounded again.

        Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008).
        """
        b = self.builder
        wide, bits = retype(x.type, F64), retype(x.type, I64)
        a, c = b.fmul(b.fpext(x, wide), b.fpext(y, wide)), b.fpext(z, wide)
        total = b.fadd(a, c)
        part = b.fsub(total, a)
        error = b.fadd(b.fsub(a, b.fsub(total, part)), b.fsub(c, part))
        inexact = b.fcmp_ordered("!=", error, constant(wide, 0.0))
        pattern = b.bitcast(total, bits)
        even = b.icmp_signed("==", b.and_(pattern, constant(bits, 1)), constant(bits, 0))
        same_sign = b.icmp_signed(">=", b.xor(pattern, b.bitcast(error, bits)), constant(bits, 0))
        step = b.select(same_sign, constant(bits, 1), constant(bits, -1))
        odd = b.select(b.and_(inexact, even), b.add(pattern, step), pattern)
        return b.fptrunc(b.bitcast(odd, wide), x.type)

    def maximum(self, x: Value, y: Value) -> Value:
        """Return the larger; y where either is not a number."""
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """Return the smaller; y where either is not a number."""
        return self.builder.select(self.builder.fcmp_ordered("<", x, y), x, y)

    def absolute(self, x: Value) -> Value:
        """Clear the sign of float32."""
        bits = retype(x.type, I32)
        cleared = self.builder.and_(self.builder.bitcast(x, bits), constant(bits, 0x7FFFFFFF))
        return self.builder.bitcast(cleared, x.type)

    def round_to_int(self, x: Value) -> Value:
        """Round float32 of magnitude under 2**22 half to even, to int32."""
        bits = retype(x.type, I32)
        shifted = self.builder.fadd(x, constant(x.type, ROUNDING_MAGIC))
        return self.builder.sub(self.builder.bitcast(shifted, bits), constant(bits, _MAGIC_BITS))

    def to_float(self, x: Value) -> Value:
        """Convert int32 to float32."""
        return self.builder.sitofp(x, retype(x.type, F32))

    def half_to_float(self, x: Value) -> Value:
        """Convert float16 bits (int16) to float32, exactly."""
        from rase_models.backends.cpu.emission import half

        return half.to_float(self, x)

    def float_to_half(self, x: Value) -> Value:
        """Round float32 half to even to float16 bits (int16)."""
        from rase_models.backends.cpu.emission import half

        return half.from_float(self, x)

    def bfloat_to_float(self, x: Value) -> Value:
        """Convert bfloat16 bits (int16) to float32, exactly."""
        bits = retype(x.type, I32)
        shifted = self.builder.shl(self.builder.zext(x, bits), constant(bits, 16))
        return self.builder.bitcast(shifted, retype(x.type, F32))

    def load_half(self, address: Value) -> Value:
        """Load 16 float16 as float32."""
        return self.half_to_float(self.load(address, ir.VectorType(I16, LANES)))

    def load_bytes_as_int(self, address: Value) -> Value:
        """Load 16 bytes of 0..255 as int32."""
        return self.builder.zext(self.load(address, vector(I8, LANES)), vector(I32, LANES))

    def load_bytes(self, address: Value, signed: bool) -> Value:
        """Load 16 bytes as float32."""
        b = self.builder
        extend = b.sext if signed else b.zext
        wide = extend(self.load(address, ir.VectorType(I8, LANES)), ir.VectorType(I32, LANES))
        return b.sitofp(wide, ir.VectorType(F32, LANES))

    # Vectors of packed bytes, as 16 int32 of 4 bytes each.

    def load_words(self, address: Value) -> Value:
        """Load 64 bytes as 16 int32, at a multiple of 16 bytes, as in MXFP4's blocks of 16 + 256."""
        return self.load(address, vector(I32, LANES), 16)

    def keep_bits(self, words: Value, mask: int) -> Value:
        """Apply an 8-bit mask to every byte."""
        return self.builder.and_(words, every_byte(words.type, mask))

    def shift_left(self, words: Value, count: int) -> Value:
        """Shift int32 left, or right (filling with zeros) when `count` is negative; bits cross bytes."""
        if count == 0:
            return words
        shift = self.builder.shl if count > 0 else self.builder.lshr
        return shift(words, constant(words.type, abs(count)))

    def field(self, words: Value, at: int, to: int, bits: int) -> Value:
        """Move `bits` bits of every byte from bit `at` to bit `to`, and clear the others."""
        return self.keep_bits(self.shift_left(words, to - at), ((1 << bits) - 1) << to)

    # Control.

    def variable(self, initial: Value) -> Value:
        """Make a variable on the stack, in the entry block so that LLVM keeps it in a register."""
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(initial.type)
        self.builder.store(initial, slot)
        return slot

    @contextmanager
    def loop(self, count: Value) -> Iterator[Value]:
        """Repeat the emitted body `count` times (int64, may be 0); gives the index."""
        b = self.builder
        head, body, done = (b.append_basic_block(name) for name in ("loop", "body", "done"))
        entry = b.block
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(constant(I64, 0), entry)
        b.cbranch(b.icmp_signed("<", index, count), body, done)
        b.position_at_end(body)
        yield index
        following = b.add(index, constant(I64, 1))
        index.add_incoming(following, b.block)
        b.branch(head)
        b.position_at_end(done)
