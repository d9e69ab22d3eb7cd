"""The compiled kernels. This table says where each is built; the modules import numba, this one does not."""

from collections.abc import Mapping

_HERE = "rase_models.backends.cpu.kernels"

BUILDERS: Mapping[str, str] = {
    "activate": f"{_HERE}.activation:activate",
    "add_dots": f"{_HERE}.dots:add_dots",
    "add_rows": f"{_HERE}.addition:add_rows",
    "attend": f"{_HERE}.attention:attend",
    "blend": f"{_HERE}.blend:blend",
    "choose_experts": f"{_HERE}.routes:choose_experts",
    "combine_experts": f"{_HERE}.experts:combine_experts",
    "copy_parts": f"{_HERE}.parts:copy_parts",
    "copy_rows": f"{_HERE}.selection:copy_rows",
    "cut_queries": f"{_HERE}.query_tiles:cut_queries",
    "embed": f"{_HERE}.embedding:embed",
    "expert_linear": f"{_HERE}.experts:expert_linear",
    "gated_activation": f"{_HERE}.gated_activation:gated_activation",
    "gated_delta": f"{_HERE}.scans:gated_delta",
    "gated_experts": f"{_HERE}.experts:gated_experts",
    "gated_linear": f"{_HERE}.gated_linear:gated_linear",
    "gather_experts": f"{_HERE}.experts:gather_experts",
    "group_rows": f"{_HERE}.routes:group_rows",
    "head_linear": f"{_HERE}.head_linear:head_linear",
    "layer_norm": f"{_HERE}.layer_norm:layer_norm",
    "linear": f"{_HERE}.linear:linear",
    "merge_spans": f"{_HERE}.attention:merge_spans",
    "pauses": f"{_HERE}.interpreter:pauses",
    "prepare_heads": f"{_HERE}.heads:prepare_heads",
    "rank_rows": f"{_HERE}.ranking:rank_rows",
    "repack_matrix": f"{_HERE}.loading:repack_matrix",
    "rms_norm": f"{_HERE}.norm:rms_norm",
    "rotate": f"{_HERE}.rope:rotate",
    "run": f"{_HERE}.interpreter:run",
    "short_conv": f"{_HERE}.short_conv:short_conv",
    "soft_cap": f"{_HERE}.soft_cap:soft_cap",
    "rescale": f"{_HERE}.rescale:rescale",
    "state_scan": f"{_HERE}.scans:state_scan",
    "store_kv": f"{_HERE}.kv_cache:store_kv",
    "worker": f"{_HERE}.interpreter:worker",
    "scale": f"{_HERE}.scale:scale",
    "selective_scan": f"{_HERE}.selective_scan:selective_scan",
}
"""Names of kernels -> `module:function`, which takes the key's parameters and returns Python source."""
    "sparsify": f"{_HERE}.sparsify:sparsify",
