"""The words that Python and the compiled kernels agree on: of op rows, the context, and threads' slots.

Every kernel is `void(i64 thread, i64 threads, i64 op, i64 context)`: `op` is the address of its op's row,
`context` that of the context words. Rows, context and slots are int64 words; the names below are byte
offsets of words. An address is absolute. A float parameter is a float32 in the low half of its word.
"""

WORD = 8

# A row of the op table.
OP_BYTES = 384
FUNCTION = 0
FLAGS = 8
CLAIMS = 16
"""Address of the op's claim word, see `kernels/claims.py`."""
WAIT_COUNT = 24
"""How many claim words a wait after this op covers, up to its own."""
X = 32
Y = 40
W = 48
BIAS = 56
K = 64
N = 72
X_STRIDE = 80
Y_STRIDE = 88
RECORDS = 96
"""Address of activation records: of the input for ops that multiply matrices, of the output for the rest."""
W2 = 104
"""Address of a second matrix."""
W_STRIDE = 112
"""Bytes between rows of W, where that is a second input, or between the weights of parts."""
PRIVATE_OFFSET = 120
"""Where the records are in a thread's own memory, when they are private."""
OUTPUT_RECORDS = 128
"""Address of the records of the output, for ops that have records for input."""
HEADS = 136
"""Equal parts of a row that are worked on apart."""
EPSILON = 144
SCALE = 152

# Ops that carry a state along a sequence.
STATE_OFFSET = 160
"""Where the op's state begins in a slot, in bytes."""
KEY_HEADS = 168
"""Parts of IN_2 and IN_3, each of which several parts of X share."""
IN_2 = 176
IN_2_STRIDE = 184
IN_3 = 192
IN_3_STRIDE = 200
STEP_SIZES = 208
STEP_SIZES_STRIDE = 216
BETAS = 224
BETAS_STRIDE = 232
TAPS = 240
CORRECTIONS = 248
CORRECTIONS_STRIDE = 256

# Values that are bent.
ABOVE = 160
BELOW = 168
SLOPE = 176

# Parts of rows.
FROM_FIRST = 160
FROM_STRIDE = 168
TO_FIRST = 176
TO_STRIDE = 184
"""Bytes from the begin of a row to its first part, and between parts, in X and in Y."""

# Attention.
KV_HEADS = 160
KEY_LENGTH = 168
VALUE_LENGTH = 176
KV_OFFSET = 184
"""Where a layer's keys begin in a KV block, in bytes; its values follow them."""
WINDOW = 192
TILES = 200
"""Address of the query tiles that attention works on (`kernels/query_tiles.py`)."""
ROPE_TABLE = 208
ROPE_DIMENSIONS = 216
ROPE_HALVES = 224
"""1 for pairs (i, i + dimensions/2), 0 for pairs (2i, 2i + 1)."""
Q = 232
Q_STRIDE = 240
V = 248
V_STRIDE = 256
Q_NORM = 264
K_NORM = 272
"""Addresses of the weights of a norm of every head, or 0."""
SOFT_CAP = 280
"""What scores are capped at, or 0."""
SINKS = 288
"""Address of one more score for each head, or 0."""
KV_GROUP = 296
"""The group of layers that the layer belongs to: which block tables, and blocks, are its own."""
KV_HEAD_NBYTES = 304
"""Bytes of one head's keys and values in a block."""
KEYS_NBYTES = 312
"""Bytes of one head's keys in a block; its values follow them."""
CHUNKED = 328
"""1 when the window does not slide, but begins at multiples of itself."""
SLOPES = 320
"""Address of a float32 for each head, what a score loses for each position of distance, or 0."""

# Mixtures of experts.
EXPERTS = 160
EXPERTS_USED = 168
NORMALISE = 176
ROUTES = 184
"""Address of the routes of a run, below."""
EXPERT_SCALES = 192
EXPERT_SCALES_2 = 200
"""Addresses of a float32 for each expert, which the products of W and W2 are multiplied by, or 0."""
EXPERT_NBYTES = 208
EXPERT_NBYTES_2 = 216
"""Bytes between the matrices of experts in W and W2, or of heads in W."""
EXPERT_BIAS = 224
EXPERT_BIAS_2 = 232
"""Addresses of float32 [experts][N], which are added to the products of W and W2, or 0."""
SELECTION_BIAS = 240
"""Address of a float32 for each expert, which only the choice among experts looks at, or 0."""
SCORING_SIGMOID = 248
"""1 when scores are sigmoids of the logits, 0 when they are their softmax."""
WEIGHS_INPUTS = 272
"""1 when the weights of experts multiply what goes into them, not what comes out."""
EXPERT_GROUPS = 256
EXPERT_GROUPS_USED = 264
"""Into how many groups experts are divided, and of how many of them some are chosen."""

# The routes of a run: which rows go to which experts. A slot is a row's place at one of its experts.
ROUTES_HEADER_BYTES = 64
GROUP_COUNT = 0
CHOSEN = 8
"""Address of int32 [rows][used], the experts of a row, ascending."""
SHARES = 16
"""Address of float32 [rows][used], the weights of a row's experts."""
ROW_SLOTS = 24
"""Address of int32 [rows][used], the slots of a row."""
GROUPS = 32
"""Address of the experts that have rows, ascending: three int64 each, `GROUP_*`."""
COUNTS = 40
"""Address of int64 [experts], working memory."""
GROUP_BYTES = 24
GROUP_EXPERT, GROUP_FIRST_SLOT, GROUP_ROWS = 0, 8, 16
"""The first slot is a multiple of 8: a tile may write past the rows of its expert."""

# Flags of a row.
WAIT = 1
"""Before the next op, wait until this op and those before it in its group are over."""
WAIT_IF_MANY = 2
"""The same, but only when the run has several rows: one row is prepared by every thread for itself."""
OUTPUT_ROWS = 4
"""The op works on the rows whose logits are wanted, not on all."""
GATHER = 8
"""Row r of the input is row `outputs[r]` of the run."""
LOGITS = 16
"""Y is an offset into the run's logits."""
ACCUMULATE = 32
"""Add to what Y holds."""
PRIVATE = 64
"""With one row, RECORDS are the thread's own."""
REPLICATED = 512
"""With one row, every thread does the op for itself."""
WRITE_RECORDS = 128
"""Write the output as activation records."""
WRITE_FLOATS = 256
"""Write the output as float32."""

# The context.
CONTEXT_BYTES = 512
STEP = 0
"""Counts runs; negative to send the workers home. Alone in its cache line, and the word that they sleep on.
"""
SLEEPERS = 64
"""How many workers sleep. Alone in its cache line."""
PROGRAM = 128
PROGRAM_END = 136
ACTIVE = 144
"""How many threads share the run."""
SPINS = 152
"""Pauses of an idle worker before it sleeps."""
PATIENCE = 160
"""Pauses at a wait before the thread yields its core."""
SLOTS = 168
ROWS = 176
OUTPUTS = 184
POSITIONS = 192
TOKENS = 200
SEQUENCES = 208
OUTPUT_INDICES = 216
BLOCK_TABLES = 224
"""Address of int32 [groups][sequences][blocks]."""
BLOCK_TABLE_STRIDE = 232
KV_BLOCKS = 240
"""Address of int64 [groups], the address of the addresses of each group's KV blocks."""
LOGITS_BASE = 248
SCRATCH = 256
SCRATCH_STRIDE = 264
PRIVATE_RECORDS = 272
PRIVATE_STRIDE = 280
PARTIALS = 288
"""Address of the results of attention over single spans, where it is split by spans."""
PROFILE = 296
"""Address of two counters an op (work and waiting of thread 0, in the units of `cycle_counter`), or 0."""
SLEEPERS_SEEN = 304
"""How many workers slept when the run started."""
STATE_SLOTS = 312
"""Address of the addresses of the slots of states."""
STATES = 320
"""Address of int32 [sequences], the slot of each."""
BLOCK_TABLES_STRIDE = 328
"""Bytes between the block tables of groups."""

# What the kernel of runs does.
WHOLE_RUN = 0
START_OF_RUN = 1
"""Start a run and say who sleeps: where kernels cannot wake them, Python does before the rest."""
REST_OF_RUN = 2

# A thread's slot.
SLOT_BYTES = 64
SLOT_STEP = 0
"""The run that the thread works on."""
SLOT_DONE = 8
"""The last run that it has left."""
