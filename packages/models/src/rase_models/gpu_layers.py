"""How many layers of a model are to be on a GPU: none or all, since a model is on one device."""

from rase_core.device import DevicePreference
from rase_core.errors import InvalidParameter

from rase_models.device_check import ACCELERATORS
from rase_models.gguf import GgufFile
from rase_models.lost_devices import CPU

ALL_LAYERS = -1


def device_for(device: str, gpu_layers: int | None) -> str:
    """Return the device to ask for: without layers on a GPU none that is one.

    Raises InvalidParameter for a number below that of all layers, and with a number BackendUnavailable for
    what is no name of a device.
    """
    if gpu_layers is not None and gpu_layers < ALL_LAYERS:
        raise InvalidParameter("gpu_layers", gpu_layers, "-1 for all layers, 0 for none")
    may_be_gpu = gpu_layers == 0 and DevicePreference.parse(device) in (DevicePreference.AUTO, *ACCELERATORS)
    return CPU if may_be_gpu else device


def layers_of(file: GgufFile) -> int:
    """Return how many layers a model has."""
    return file.integer(f"{file.architecture}.block_count", default=1)


def check_gpu_layers(gpu_layers: int | None, layers: int, device: str, name: str = "gpu_layers") -> None:
    """Raise InvalidParameter for layers that are not where they are asked for; `name` is the parameter's.

    The model is on the device with all of its layers.
    """
    if gpu_layers is None:
        return
    is_on_gpu = device.partition(":")[0] in ACCELERATORS
    if 0 < gpu_layers < layers:
        expected = (
            f"0 for none or -1 for all of the {layers} layers: the layers of a model are not split between "
            "a GPU and the CPU; with a smaller quantisation or a shorter context all of them may fit"
        )
        raise InvalidParameter(name, gpu_layers, expected)
    if is_on_gpu and gpu_layers == 0:
        raise InvalidParameter(name, gpu_layers, f"-1 or nothing: the model is on the device {device}")
    if not is_on_gpu and gpu_layers != 0:
        raise InvalidParameter(name, gpu_layers, f"0 or nothing: the model is on the device {device}, no GPU")
