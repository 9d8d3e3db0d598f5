# pyright: basic, reportInvalidTypeForm=false
"""The kernels of causal attention: one pass forward, one for dq, one for dk and dv, none with atomics.

Tiles are read and written through descriptors of the tensors as (B, heads, T, features), whatever their strides; beyond
the edges of a tensor a descriptor reads zeros and writes nothing. Logits are in base 2: exp2(s · log2 e) = exp(s).

B batch, T time, H heads, K key-value heads, D features of a query or key, E features of a value; M rows of queries and
N rows of keys in a tile.
"""

from labkit.kernels.launch import jit, tl

LOG2E = tl.constexpr(1.4426950408889634)
HIDDEN = tl.constexpr(-(2.0**100))
"""A logit of what must not be seen: finite, so that a row without anything to see yet makes no NaN, and a power of two,
so that its product with a factor is exact, fused with a subtraction or not."""
ROOM = tl.constexpr(128)
"""Sums of exponentials are kept for a multiple of so many rows of each head, so that no tile reads past its end."""
SIZES = ("pairs", "span", "H", "K", "group", "length", "window")
"""What differs between models without a new compilation."""


@jit
def _place(length, pairs, span, BLOCK: tl.constexpr, LAST_FIRST: tl.constexpr):
    """(block, pair): the rows, and which (batch, head), of this program.

    Within `span` pairs, whose keys and values then stay in the cache, the longest programs come first.
    """
    blocks = tl.cdiv(length, BLOCK)
    program = tl.program_id(0)
    first = program // (span * blocks) * span
    width = tl.minimum(pairs - first, span)
    within = program % (span * blocks)
    block = within // width
    if LAST_FIRST:
        block = blocks - 1 - block
    return block, first + within % width


@jit
def _seen(rows, columns, window, WINDOWED: tl.constexpr):
    """Which keys each query sees: the last `window` up to itself."""
    distance = rows - columns
    seen = distance >= 0
    if WINDOWED:
        seen = seen & (distance < window)
    return seen


@jit
def _tanh(x):
    """tanh(x / (2 log2 e)), whose error is small beside 1."""
    return 1.0 - 2.0 / (1.0 + tl.exp2(x))


@jit
def _turned_back(
    x, cos, sin, start, ROWS: tl.constexpr, WIDTH: tl.constexpr, ROTATED: tl.constexpr, INTERLEAVED: tl.constexpr
):
    """The rows of x from `start` on: (a, b) -> (a cos + b sin, b cos - a sin) for each pair of features."""
    half: tl.constexpr = ROTATED // 2
    if INTERLEAVED:
        pairs = tl.reshape(x, (ROWS, WIDTH // 2, 2))
        turns = (tl.arange(0, WIDTH // 2) < half)[None, :]
        c = tl.where(turns, cos.load([start, 0]), 1.0)
        s = sin.load([start, 0])
    else:
        pairs = tl.permute(tl.reshape(x, (ROWS, WIDTH // ROTATED, 2, half)), (0, 1, 3, 2))
        turns = (tl.arange(0, WIDTH // ROTATED) == 0)[None, :, None]
        c = tl.where(turns, cos.load([start, 0])[:, None, :], 1.0)
        s = tl.where(turns, sin.load([start, 0])[:, None, :], 0.0)
    a, b = tl.split(pairs)
    turned = tl.join(a * c + b * s, b * c - a * s)
    if not INTERLEAVED:
        turned = tl.permute(turned, (0, 1, 3, 2))
    return tl.reshape(turned, (ROWS, WIDTH))


@jit(do_not_specialize=SIZES)
def forward_kernel(
    q, k, v, out, lse, sinks, slopes, pairs, span, H, group, length, window, inner, outer,
    M: tl.constexpr, N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
    CAPPED: tl.constexpr, WINDOWED: tl.constexpr, SINKS: tl.constexpr, SLOPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out = softmax(s) V; leaves log2 Σ exp2(s) in lse, infinite in rows beyond the end.

    s = outer · q kᵀ, or outer · tanh(q kᵀ · inner / (2 log2 e)) where capped. A slope's bias is taken relative to the
    first row of the tile: what is constant in a row cancels in its softmax, and near keys keep their digits.
    """
    room = tl.cdiv(length, ROOM) * ROOM
    block, pair = _place(room, pairs, span, M, True)
    b, h = pair // H, pair % H
    shared = h // group
    start = block * M
    rows = start + tl.arange(0, M)
    q_MD = q.load([b, h, start, 0]).reshape([M, BLOCK_D])

    slope = 0.0
    lift_M = tl.zeros((M,), tl.float32)
    if SLOPED:
        slope = tl.load(slopes + h).to(tl.float32) * LOG2E
        lift_M = slope * tl.arange(0, M).to(tl.float32)
    if SINKS:
        top_M = lift_M + tl.load(sinks + h).to(tl.float32) * LOG2E
        total_M = tl.full((M,), 1.0, tl.float32)
    else:
        top_M = tl.full((M,), float("-inf"), tl.float32)
        total_M = tl.zeros((M,), tl.float32)
    acc_ME = tl.zeros((M, BLOCK_E), tl.float32)

    low, whole = 0, 0
    end = tl.where(start < length, tl.minimum(start + M, length), 0)
    if WINDOWED:
        low = tl.maximum(start - window + 1, 0) // N * N
        whole = start + M - window
    for at in tl.range(low, end, N):
        columns = at + tl.arange(0, N)
        k_ND = k.load([b, shared, at, 0]).reshape([N, BLOCK_D])
        s = tl.dot(q_MD, tl.trans(k_ND), input_precision=PRECISION)
        factor = outer
        if CAPPED:
            s = _tanh(s * inner)
        if SLOPED:
            s = s * outer + slope * (columns - start).to(tl.float32)[None, :]
            factor = 1.0
        if (at < whole) | (at + N > start):
            s = tl.where(_seen(rows[:, None], columns[None, :], window, WINDOWED), s, HIDDEN)
        largest_M = tl.maximum(top_M, tl.max(s, 1) * factor)
        p = tl.exp2(s * factor - largest_M[:, None])
        fading_M = tl.exp2(top_M - largest_M)
        total_M = total_M * fading_M + tl.sum(p, 1)
        acc_ME = acc_ME * fading_M[:, None]
        v_NE = v.load([b, shared, at, 0]).reshape([N, BLOCK_E])
        acc_ME = tl.dot(p.to(v_NE.dtype), v_NE, acc_ME, input_precision=PRECISION)
        top_M = largest_M

    out.store([b, h, start, 0], (acc_ME / total_M[:, None]).to(out.dtype).reshape([1, 1, M, BLOCK_E]))
    lse_M = tl.where(rows < length, top_M + tl.log2(total_M) - lift_M, float("inf"))
    tl.store(lse + pair.to(tl.int64) * room + rows, lse_M)


@jit(do_not_specialize=SIZES)
def query_kernel(
    q, k, v, dq, out, dout, lse, delta, sinks, dsinks, slopes, cos, sin,
    pairs, span, H, group, length, window, inner, outer, scale,
    M: tl.constexpr, N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, E: tl.constexpr,
    CAPPED: tl.constexpr, WINDOWED: tl.constexpr, SINKS: tl.constexpr, SLOPED: tl.constexpr,
    ROTATED: tl.constexpr, INTERLEAVED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq = scale · dS K with dS = P (dO Vᵀ - delta), turned back by the rotation's angles.

    Leaves delta = Σ dO O for the keys' kernel, and each block's share of the sinks' gradient. `out` and `dout` are
    contiguous and read through pointers: their loads are under way together, those of descriptors would not be.
    """
    room = tl.cdiv(length, ROOM) * ROOM
    block, pair = _place(room, pairs, span, M, True)
    b, h = pair // H, pair % H
    shared = h // group
    start = block * M
    rows, e = start + tl.arange(0, M), tl.arange(0, BLOCK_E)
    at_M = pair.to(tl.int64) * room + rows

    at_ME = ((b.to(tl.int64) * length + rows) * H + h)[:, None] * E + e[None, :]
    inside = (rows < length)[:, None] & (e < E)[None, :]
    out_ME = tl.load(out + at_ME, mask=inside, other=0.0)
    do_ME = tl.load(dout + at_ME, mask=inside, other=0.0)
    lse_M = tl.load(lse + at_M)
    q_MD = q.load([b, h, start, 0]).reshape([M, BLOCK_D])
    delta_M = tl.sum(out_ME.to(tl.float32) * do_ME.to(tl.float32), 1)
    tl.store(delta + at_M, delta_M)
    if SINKS:
        share = tl.exp2(tl.load(sinks + h).to(tl.float32) * LOG2E - lse_M) * delta_M
        tl.store(dsinks + pair * (room // M) + block, -tl.sum(share, 0))
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + h).to(tl.float32) * LOG2E
        lse_M += slope * tl.arange(0, M).to(tl.float32)
    acc_MD = tl.zeros((M, BLOCK_D), tl.float32)

    low, whole = 0, 0
    end = tl.where(start < length, tl.minimum(start + M, length), 0)
    if WINDOWED:
        low = tl.maximum(start - window + 1, 0) // N * N
        whole = start + M - window
    for at in tl.range(low, end, N):
        columns = at + tl.arange(0, N)
        k_ND = k.load([b, shared, at, 0]).reshape([N, BLOCK_D])
        v_NE = v.load([b, shared, at, 0]).reshape([N, BLOCK_E])
        s = tl.dot(q_MD, tl.trans(k_ND), input_precision=PRECISION)
        factor = outer
        if CAPPED:
            s = _tanh(s * inner)
            steepness = 1.0 - s * s
        if SLOPED:
            s = s * outer + slope * (columns - start).to(tl.float32)[None, :]
            factor = 1.0
        p = tl.exp2(s * factor - lse_M[:, None])
        if (at < whole) | (at + N > start):
            p = tl.where(_seen(rows[:, None], columns[None, :], window, WINDOWED), p, 0.0)
        ds = p * (tl.dot(do_ME, tl.trans(v_NE), input_precision=PRECISION) - delta_M[:, None])
        if CAPPED:
            ds = ds * steepness
        acc_MD = tl.dot(ds.to(k_ND.dtype), k_ND, acc_MD, input_precision=PRECISION)

    acc_MD = acc_MD * scale
    if ROTATED > 0:
        acc_MD = _turned_back(acc_MD, cos, sin, start, M, BLOCK_D, ROTATED, INTERLEAVED)
    dq.store([b, h, start, 0], acc_MD.to(dq.dtype).reshape([1, 1, M, BLOCK_D]))


@jit(do_not_specialize=SIZES)
def key_kernel(
    q, k, v, dk, dv, dout, lse, delta, slopes, cos, sin,
    pairs, span, K, group, length, window, inner, outer, scale,
    M: tl.constexpr, N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
    CAPPED: tl.constexpr, WINDOWED: tl.constexpr, SLOPED: tl.constexpr,
    ROTATED: tl.constexpr, INTERLEAVED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dv = Pᵀ dO and dk = scale · dSᵀ Q, summed over the heads of queries that share them, one after the other.

    Products start from -lse and -delta instead of subtracting them after: registers for three programs at a time.
    """
    block, pair = _place(length, pairs, span, N, False)
    room = tl.cdiv(length, ROOM) * ROOM
    b, shared = pair // K, pair % K
    start = block * N
    columns = tl.arange(0, N)
    k_ND = k.load([b, shared, start, 0]).reshape([N, BLOCK_D])
    v_NE = v.load([b, shared, start, 0]).reshape([N, BLOCK_E])
    dk_ND, dv_NE = tl.zeros((N, BLOCK_D), tl.float32), tl.zeros((N, BLOCK_E), tl.float32)

    low = start // M * M
    end, whole = length, length
    if WINDOWED:
        end = tl.minimum(start + N + window - 1, length)
        whole = start + window - M
    for member in range(group):
        h = shared * group + member
        slope = 0.0
        if SLOPED:
            slope = tl.load(slopes + h).to(tl.float32) * LOG2E
        base = (b.to(tl.int64) * (K * group) + h) * room
        for at in tl.range(low, end, M):
            rows = at - start + tl.arange(0, M)
            lse_M = tl.load(lse + base + at + tl.arange(0, M))
            delta_M = tl.load(delta + base + at + tl.arange(0, M))
            q_MD = q.load([b, h, at, 0]).reshape([M, BLOCK_D])
            do_ME = dout.load([b, h, at, 0]).reshape([M, BLOCK_E])
            if CAPPED or SLOPED:
                s = tl.dot(k_ND, tl.trans(q_MD), input_precision=PRECISION)
                factor = outer
                if CAPPED:
                    s = _tanh(s * inner)
                    steepness = 1.0 - s * s
                if SLOPED:
                    s = s * outer + slope * columns.to(tl.float32)[:, None]
                    lse_M += slope * rows.to(tl.float32)
                    factor = 1.0
                p = tl.exp2(s * factor - lse_M[None, :])
            else:
                begin = tl.broadcast_to((lse_M * (-1.0 / outer))[None, :], (N, M))
                p = tl.exp2(tl.dot(k_ND, tl.trans(q_MD), begin, input_precision=PRECISION) * outer)
            if (at < start + N - 1) | (at > whole):
                p = tl.where(_seen(rows[None, :], columns[:, None], window, WINDOWED), p, 0.0)
            dv_NE = tl.dot(p.to(do_ME.dtype), do_ME, dv_NE, input_precision=PRECISION)
            begin = tl.broadcast_to(-delta_M[None, :], (N, M))
            ds = p * tl.dot(v_NE, tl.trans(do_ME), begin, input_precision=PRECISION)
            if CAPPED:
                ds = ds * steepness
            dk_ND = tl.dot(ds.to(q_MD.dtype), q_MD, dk_ND, input_precision=PRECISION)

    dk_ND = dk_ND * scale
    if ROTATED > 0:
        dk_ND = _turned_back(dk_ND, cos, sin, start, N, BLOCK_D, ROTATED, INTERLEAVED)
    dk.store([b, shared, start, 0], dk_ND.to(dk.dtype).reshape([1, 1, N, BLOCK_D]))
    dv.store([b, shared, start, 0], dv_NE.to(dv.dtype).reshape([1, 1, N, BLOCK_E]))
