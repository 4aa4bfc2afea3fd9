"""Weights on their way from one library to another, each way run on the libraries themselves."""

import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from arrays import (
    D_K,
    SCORES,
    E,
    H,
    attend,
    attention_of,
    called,
    close,
    keras_layer,
    of_keras,
    rotary_layer,
    torch_layer,
)
from real_layers import keras_library, randomised, timm_code, transformers

import qkv
from qkv_site.tables import counts, fused, slices

N = 5


def tokens(rng, width: int = E) -> np.ndarray:
    return rng.normal(size=(1, N, width))


def stated(weights):
    """The arrays as tensors, for `load_state_dict`."""
    torch = pytest.importorskip("torch")
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}


def nested(weights, prefix=""):
    """The arrays of each module by kind: of "query/kernel" that of "query", by "kernel"."""
    modules = {}
    for name, array in weights.items():
        module, _, kind = name.rpartition("/")
        modules.setdefault(prefix + module, {})[kind] = array
    return modules


def far(a, b) -> bool:
    return not close(a, b, 1e-3)


def of_pytorch(weights, x) -> np.ndarray:
    torch = pytest.importorskip("torch")
    layer = torch.nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64)
    layer.load_state_dict(stated(weights))
    return called(layer, x, x, x)[0]


def of_the_layer_of_keras(weights, x) -> np.ndarray:
    layer = keras_layer(keras_library(), np.random.default_rng(0))
    layer.set_weights(list(weights.values()))
    return of_keras(layer, x, x, **SCORES)[0]


def of_flax(weights, x) -> np.ndarray:
    jax, linen = pytest.importorskip("jax"), pytest.importorskip("flax.linen")
    layer = linen.MultiHeadDotProductAttention(H, param_dtype=np.float64)
    with jax.enable_x64(True):
        return np.asarray(layer.apply({"params": nested(weights)}, x))


def of_haiku(weights, x) -> np.ndarray:
    jax, hk = pytest.importorskip("jax"), pytest.importorskip("haiku")
    layer = hk.transform(lambda x: hk.MultiHeadAttention(H, D_K, w_init=np.zeros)(x, x, x))
    with jax.enable_x64(True):
        return np.asarray(layer.apply(nested(weights, "multi_head_attention/"), None, x))


@pytest.mark.parametrize(
    ("source", "target"), [*permutations(("pytorch", "keras", "flax", "haiku"), 2)]
)
def test_weights_move_between_torch_keras_flax_and_haiku(source, target, rng):
    """Weights move between PyTorch, Keras, Flax and Haiku, and the layers compute the same.

    Covers: the 12 directions between these four, with biases, in float64, to 1e-12; Keras' layer is
    asked for the scores, and Flax is linen.
    """
    x, layers = tokens(rng), {"pytorch": of_pytorch, "keras": of_the_layer_of_keras}
    layers |= {"flax": of_flax, "haiku": of_haiku}
    stored = qkv.dump(qkv.MultiHead.random(E, H, bias=True), source)
    moved = qkv.dump(qkv.load(stored, source, h=H), target)
    assert close(layers[target](moved, x), layers[source](stored, x))


def test_haiku_moves_to_flax_by_reshaping_and_to_torch_by_transposing(rng):
    """Haiku weights move to Flax by reshaping alone, and to PyTorch by transposing and stacking."""
    x, QKV = tokens(rng), ("query", "key", "value")
    stored = qkv.dump(qkv.MultiHead.random(E, H, bias=True), "haiku")
    flax = {f"{name}/kernel": stored[f"{name}/w"].reshape(E, H, D_K) for name in QKV}
    flax |= {f"{name}/bias": stored[f"{name}/b"].reshape(H, D_K) for name in QKV}
    flax |= {"out/kernel": stored["linear/w"].reshape(H, D_K, E), "out/bias": stored["linear/b"]}
    pytorch = {
        "in_proj_weight": np.concatenate([stored[f"{name}/w"].T for name in QKV]),
        "in_proj_bias": np.concatenate([stored[f"{name}/b"] for name in QKV]),
        "out_proj.weight": stored["linear/w"].T,
        "out_proj.bias": stored["linear/b"],
    }
    expected = of_haiku(stored, x)
    assert close(of_flax(flax, x), expected)
    assert close(of_pytorch(pytorch, x), expected)
    untransposed = pytorch | {"out_proj.weight": stored["linear/w"]}
    assert far(of_pytorch(untransposed, x), expected)


@pytest.mark.parametrize("turned", [True, False])
def test_vit_of_google_moves_to_timm_by_reshaping_and_transposing(rng, turned):
    """Google's ViT moves to timm if each kernel is reshaped to a square and transposed."""
    x, names = tokens(rng), ("query", "key", "value")
    flax = qkv.dump(qkv.MultiHead.random(E, H, bias=True), "flax")
    squares = [flax[f"{name}/kernel"].reshape(E, E) for name in (*names, "out")]
    *squares, out = (square.T if turned else square for square in squares)
    state = {
        "qkv.weight": np.concatenate(squares),
        "qkv.bias": np.concatenate([flax[f"{name}/bias"].reshape(-1) for name in names]),
        "proj.weight": out,
        "proj.bias": flax["out/bias"],
    }
    layer = timm_code().Attention(E, num_heads=H, qkv_bias=True).double().eval()
    layer.load_state_dict(stated(state))
    assert close(called(layer, x), of_flax(flax, x), 1e-12 if turned else 1e-3) == turned


# Fused weights


@pytest.mark.parametrize(("multi_query", "rows"), [(True, 2304), (False, 3 * 2048)])
def test_gpt_bigcode_with_the_sizes_of_santacoder_has_2304_rows(torch, multi_query, rows):
    """GPT-BigCode with the sizes of SantaCoder stores c_attn as (2304, 2048)."""
    library = transformers("gpt_bigcode")
    config = library.GPTBigCodeConfig(n_embd=2048, n_head=16, multi_query=multi_query)
    with torch.device("meta"):
        layer = library.GPTBigCodeAttention(config)
    assert isinstance(layer.c_attn, torch.nn.Linear)
    assert layer.c_attn.weight.shape == (rows, 2048)
    assert 16 * 128 + 128 + 128 == 3 * 768 == 2304


def test_the_lines_of_the_table_of_fused_weights_cut_each_of_them(torch, rng):
    """The lines of PyTorch in the table of fused weights cut each weight as its layout says.

    Covers: the orders of the layouts of this site, with 8 heads of queries, in groups of 4 where an
    order has groups; how many have one length, with a key for each head.
    """
    h, h_kv, d_k, E = 8, 2, 3, 24
    for order in fused.orders():
        for layout, stored, _ in order.arrays:
            sizes = {"h": h, "h_kv": h_kv, "d_k": d_k, "d_model": E, "d_source": E, "d_out": E}
            W = rng.normal(size=stored.shape_for(sizes))
            parts = stored.unpack(W, sizes)
            rows = W if stored.axes[-1] == ("d_model",) else W.T
            names = {"W": torch.from_numpy(rows.copy()), "h": h, "h_kv": h_kv, "d_k": d_k, "E": E}
            exec(order.cut, names)
            for part, heads in parts.items():
                cut = names[part[-1].lower()].reshape(-1, E)
                assert np.array_equal(cut.T, np.hstack([*heads])), (layout.name, part)
    sizes |= {"h_kv": h}  # each head with its own key
    first = [order.arrays[0][1] for order in fused.orders()]
    lengths = [stored.shape_for(sizes)[slices.axis_of_heads(stored)] for stored in first]
    assert lengths.count(3 * h * d_k) == len(lengths) - 1 == 5


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_key_rows_of_a_fused_bias_stay_small_in_training(torch, seed):
    """The keys' part of a fused bias stays small while AdamW trains a layer without a rotation.

    Covers: one nn.MultiheadAttention of 4 heads, 150 steps on one task, with the seeds 0, 1 and 2.
    """
    torch.manual_seed(seed)
    nn, causal = torch.nn, torch.ones(12, 12, dtype=torch.bool).triu(1)
    embed, layer, out = nn.Embedding(5, 16), nn.MultiheadAttention(16, 4), nn.Linear(16, 5)
    parameters = [each for module in (embed, layer, out) for each in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    for _ in range(150):
        ids = torch.randint(0, 5, (12, 32))
        most = nn.functional.one_hot(ids, 5).cumsum(0).argmax(-1)  # the token seen most
        x = embed(ids)
        y = x + layer(x, x, x, attn_mask=causal, need_weights=False)[0]
        optimizer.zero_grad()
        nn.functional.cross_entropy(out(y).flatten(0, 1), most.flatten()).backward()
        optimizer.step()
    queries, keys, values = (part.norm() for part in layer.in_proj_bias.detach().chunk(3))
    assert 0 < keys < min(queries, values) / 2


# LoRA


def test_lora_stacked_in_thirds_trains_the_keys_of_gpt_neox(torch, rng):
    """A LoRA update that is stacked as queries, zeros, values trains the keys of GPT-NeoX."""
    layer, x = rotary_layer("GPTNeoX", rng, head_dim=D_K), tokens(rng)
    state = {name: array.clone() for name, array in layer.state_dict().items()}
    before, name = qkv.load(state, "gpt-neox", h=H), "query_key_value.weight"
    update_Q, update_V = (rng.normal(size=(E, 2)) @ rng.normal(size=(2, E)) for _ in "QV")
    thirds = np.concatenate([update_Q, np.zeros((E, E)), update_V])
    per_head = thirds.reshape(3, H, D_K, E).swapaxes(0, 1).reshape(3 * E, E)
    stacked, scattered = (
        qkv.load(state | {name: state[name] + torch.from_numpy(update)}, "gpt-neox", h=H)
        for update in (thirds, per_head)
    )
    of_Q, of_V = (update.reshape(H, D_K, E).swapaxes(1, 2) for update in (update_Q, update_V))
    assert close(stacked.W_Q[0] - before.W_Q[0], of_Q[0])
    assert close(stacked.W_K[0] - before.W_K[0], of_Q[1])  # head 1's queries, in head 0's keys
    assert np.array_equal(stacked.W_Q[1], before.W_Q[1])
    assert np.array_equal(stacked.W_V[0], before.W_V[0])
    assert close(scattered.W_Q - before.W_Q, of_Q)
    assert close(scattered.W_V - before.W_V, of_V)
    assert np.array_equal(scattered.W_K, before.W_K)

    outputs = []
    for mh in (scattered, stacked):
        layer.load_state_dict(stated(qkv.dump(mh, "gpt-neox")))
        outputs.append(attend(layer, x)[0])
        assert close(outputs[-1], replace(mh, between=())(x))
    assert far(*outputs)


def test_lora_is_added_transposed_to_each_conv1d_of_gpt2(torch, rng):
    """A LoRA update B A is added transposed to each Conv1D of GPT-2, to the square c_proj too."""
    layer, x = attention_of("GPT2", rng, n_embd=E, n_head=H), torch.from_numpy(tokens(rng))
    for module, out in ((layer.c_attn, 3 * E), (layer.c_proj, E)):
        A, B = (torch.from_numpy(rng.normal(size=size)) for size in ((2, E), (out, 2)))
        scale = 16 / 2  # lora_alpha / r
        adapted = module(x) + scale * (x @ A.T @ B.T)
        assert close(x @ (module.weight + scale * (B @ A).T) + module.bias, adapted)
        assert module.weight.shape == (E, out)
        if out == E:
            assert far(x @ (module.weight + scale * (B @ A)) + module.bias, adapted)
        else:
            with pytest.raises(RuntimeError, match="must match the size"):
                module.weight + scale * (B @ A)


# Biases


def test_qwen2_loses_its_biases_under_llama_without_a_word(torch, rng):
    """Qwen2 under Llama's class loses the biases of queries, keys and values with strict=False."""
    sizes = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 11, "num_hidden_layers": 1, "vocab_size": 13}

    def small(model, **options):
        library = transformers(model.lower())
        config = getattr(library, f"{model}Config")(**sizes, tie_word_embeddings=False, **options)
        return getattr(library, f"{model}ForCausalLM")(config).double().eval()

    def logits(model):
        return model(torch.arange(7)[None]).logits

    qwen, place = randomised(small("Qwen2"), rng), "model.layers.0.self_attn"
    plain, biased = small("Llama"), small("Llama", attention_bias=True)
    told = plain.load_state_dict(qwen.state_dict(), strict=False)
    assert told.missing_keys == []
    assert {*told.unexpected_keys} == {f"{place}.{name}_proj.bias" for name in "qkv"}
    assert far(logits(plain), logits(qwen))
    told = biased.load_state_dict(qwen.state_dict(), strict=False)
    assert (told.missing_keys, told.unexpected_keys) == ([f"{place}.o_proj.bias"], [])
    layer = biased.get_submodule(place)
    layer.o_proj.bias.zero_()
    assert close(logits(biased), logits(qwen), 1e-5)  # angles are in float32
    layer.k_proj.bias.zero_()
    assert far(logits(biased), logits(qwen))


def test_a_constant_key_bias_cancels_until_it_is_large(torch):
    """A key bias of 1000 changes SDPA's output in float32 a little, 1e6 ruins it, NaN gives NaN.

    Covers: 4 heads of width 16, 20 tokens, random normal queries, keys and values, on the CPU.
    """
    attend = torch.nn.functional.scaled_dot_product_attention
    (Q, K, V), direction = torch.randn(3, 1, 4, 20, 16), torch.randn(4, 1, 16)

    def error(size: float) -> float:
        return (attend(Q, K + size * direction, V) - attend(Q, K, V)).abs().max().item()

    assert error(0) == 0
    assert error(1) < 1e-5 < error(1e3) < 1e-2
    assert error(1e6) > 0.1
    assert np.isnan(error(float("nan")))
    assert not np.isfinite(error(1e38))
    assert torch.tensor(1e5).half().isinf()


def test_whisper_packed_with_a_key_bias_of_zeros_computes_the_same(torch, rng):
    """Whisper packed into one layer with a bias of 3E computes the same with zeros for its keys."""
    library, x = transformers("whisper"), tokens(rng)
    layer = randomised(library.WhisperAttention(E, H, config=library.WhisperConfig()), rng)
    state, packed = layer.state_dict(), torch_layer(rng)
    state |= {"k_proj.bias": torch.zeros(E)}
    packed.load_state_dict(
        {
            "in_proj_weight": torch.cat([state[f"{part}_proj.weight"] for part in "qkv"]),
            "in_proj_bias": torch.cat([state[f"{part}_proj.bias"] for part in "qkv"]),
            "out_proj.weight": state["out_proj.weight"],
            "out_proj.bias": state["out_proj.bias"],
        }
    )
    assert close(called(packed, x, x, x)[0], called(layer, x)[0])
    packed.in_proj_bias[E : 2 * E] = float("nan")
    assert np.isnan(called(packed, x, x, x)[0]).all()


# Heads on several devices, and what a message says


def test_the_numbers_in_the_message_of_view_are_the_shape_wanted_and_the_size_that_came(torch):
    """The message of PyTorch's view holds the shape that the code wants and the size that came."""
    for came, wanted in (
        ((1, 28, 8 * 128), (1, 28, 64, 128)),
        ((1, 13, 16 * 128), (1, 13, 8, 128)),
        ((4, 178, 64), (4, 178, -1, 128)),
        ((1, 28, 2048), (1, 28, 4096)),
    ):
        said = rf"shape '\[{', '.join(map(str, wanted))}\]' is invalid for input of size "
        with pytest.raises(RuntimeError, match=said + str(np.prod(came))):
            torch.empty(came, device="meta").view(wanted)


def test_torch_names_the_keys_and_the_sentences_of_the_queries_where_batches_differ(torch):
    """`nn.MultiheadAttention` names the keys, sentences of the queries times heads, and a width."""
    for batch_first, queries, keys, shape in (
        (True, (4, 5), (2, 6), [6, 4 * 8, 64]),
        (False, (2, 5), (2, 7), [2, 5 * 8, 64]),
    ):
        layer = torch.nn.MultiheadAttention(512, 8, batch_first=batch_first)
        x, y = torch.ones(*queries, 512), torch.ones(*keys, 512)
        said = f"shape '{shape}' is invalid for input of size {y.numel()}"
        with pytest.raises(RuntimeError, match=f"^{re.escape(said)}$"):
            layer(x, y, y)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_llama_on_more_ranks_than_key_heads_is_exact_if_whole_key_heads_are_repeated(
    torch, rng, tp
):
    """Llama on more ranks than key heads is exact if each rank holds a whole key head.

    Covers: 8 heads of queries over 2, on 1, 2, 4 and 8 ranks, in float64.
    """

    def llama(h: int, h_kv: int):
        sizes = {"num_attention_heads": h, "num_key_value_heads": h_kv}
        return rotary_layer("Llama", rng, hidden_size=24, **sizes)

    whole, x, total = llama(8, 2), tokens(rng, 24), 0
    mh = qkv.load(whole.state_dict(), "llama", h=8, h_kv=2)
    for rank in range(tp):
        own, first = slice(rank * 8 // tp, (rank + 1) * 8 // tp), rank * 2 // tp
        kv = slice(first, max(first + 1, (rank + 1) * 2 // tp))
        parts = {"W_Q": mh.W_Q[own], "W_K": mh.W_K[kv], "W_V": mh.W_V[kv], "W_O": mh.W_O[own]}
        shard = replace(mh, **parts)
        layer = llama(shard.h, shard.h_kv)
        layer.load_state_dict(stated(qkv.dump(shard, "llama")))
        total = total + attend(layer, x)[0]
    assert close(total, attend(whole, x)[0])
    if tp == 4:
        layer.k_proj.weight = torch.nn.Parameter(whole.k_proj.weight.chunk(4)[0])  # half a head
        with pytest.raises(RuntimeError, match="is invalid for input of size"):
            attend(layer, x)


# Counts


@pytest.mark.parametrize(("kernel", "counts"), [("MATH", True), ("FLASH_ATTENTION", False)])
def test_torch_counts_no_operations_of_its_fused_attention_on_a_cpu(torch, kernel, counts):
    """PyTorch's FlopCounterMode counts no operations of its fused attention on a CPU."""
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    kernels, (h, n, d_k) = pytest.importorskip("torch.nn.attention"), (8, 64, 16)
    Q, K, V = torch.randn(3, 1, h, n, d_k)
    with kernels.sdpa_kernel(getattr(kernels.SDPBackend, kernel)), counter:
        torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    assert counter.get_total_flops() == counts * 4 * n * n * d_k * h


def matrices(*modules) -> int:
    """How many numbers the matrices of modules hold; norms and biases have one axis."""
    parameters = (each for module in modules for each in module.parameters())
    return sum(parameter.numel() for parameter in parameters if parameter.dim() == 2)


@pytest.mark.parametrize(
    "model", [each for each in counts.models() if "type" in each], ids=lambda model: model["name"]
)
def test_a_layer_of_transformers_holds_as_many_weights_as_the_table_counts(model, torch):
    """A layer of Transformers with a model's sizes holds as many weights as the table counts.

    Covers: the models of the table that Transformers has, the attention and the MLP of one layer;
    of DeepSeek-V3 the attention. Built without numbers, on PyTorch's device "meta".
    """
    library, (d_model, h) = transformers(model["type"]), (model["d_model"], model["h"])
    with torch.device("meta"):
        if model["type"] == "gpt2":
            layer = library.GPT2Block(library.GPT2Config(n_embd=d_model, n_head=h), layer_idx=0)
            attention, mlp = [layer.attn], [layer.mlp]
        elif model["type"] == "bert":
            layer = library.BertLayer(library.BertConfig())
            attention, mlp = [layer.attention], [layer.intermediate, layer.output]
        elif model["type"] == "vit":
            layer = library.ViTLayer(library.ViTConfig())
            attention, mlp = [layer.attention], [layer.mlp]
        elif model["type"] == "deepseek_v3":
            config = library.DeepseekV3Config()
            attention, mlp = [library.DeepseekV3Attention(config, layer_idx=0)], []
        else:
            title = model["type"].title()
            sizes = {"hidden_size": d_model, "num_attention_heads": h}
            sizes |= {"num_key_value_heads": model.get("h_kv", h)}
            sizes |= {"head_dim": model.get("d_k", d_model // h)}
            config = getattr(library, f"{title}Config")(**sizes, intermediate_size=model["d_ff"])
            layer = getattr(library, f"{title}DecoderLayer")(config, layer_idx=0)
            attention, mlp = [layer.self_attn], [layer.mlp]
    counted = counts.cost_of(model, 1)
    assert matrices(*attention) == counted.attention_parameters
    assert matrices(*mlp) == counted.mlp_parameters
