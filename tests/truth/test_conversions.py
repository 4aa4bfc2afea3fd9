"""Weights on their way from one library to another, each way run on the libraries themselves.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from arrays import D_K, E, H, attend, close
from real_layers import keras_library, randomised, timm_code, transformers

import qkv
from qkv_site.tables import counts, fused

N = 5


def tokens(rng, width: int = E) -> np.ndarray:
    return rng.normal(size=(1, N, width))


def called(module, *sources, **options) -> np.ndarray:
    """The first output of a PyTorch module that is called with arrays."""
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        given = (torch.from_numpy(source) for source in sources)
        return np.asarray(module(*given, **options)[0])


def far(a, b) -> bool:
    return not close(a, b, 1e-3)


# From library to library


def pytorch_with(weights, x) -> np.ndarray:
    torch = pytest.importorskip("torch")
    layer = torch.nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64)
    layer.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return called(layer, x, x, x)


def keras_with(weights, x) -> np.ndarray:
    keras = keras_library()
    layer = keras.layers.MultiHeadAttention(H, key_dim=D_K, dtype="float64")
    layer.build(x.shape, x.shape)
    layer.set_weights(list(weights.values()))
    output, _ = layer(x, x, return_attention_scores=True)
    return keras.ops.convert_to_numpy(output)


def by_module(weights) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of each module by kind: of "query/kernel" that of "query", by "kernel"."""
    nested = {}
    for name, array in weights.items():
        module, _, kind = name.rpartition("/")
        nested.setdefault(module, {})[kind] = array
    return nested


def flax_with(weights, x) -> np.ndarray:
    jax = pytest.importorskip("jax")
    linen = pytest.importorskip("flax.linen")
    params = by_module(weights)
    with jax.enable_x64(True):
        layer = linen.MultiHeadDotProductAttention(H, param_dtype=np.float64)
        return np.asarray(layer.apply({"params": params}, x))


def haiku_with(weights, x) -> np.ndarray:
    jax = pytest.importorskip("jax")
    hk = pytest.importorskip("haiku")
    params = {
        f"multi_head_attention/{module}": arrays for module, arrays in by_module(weights).items()
    }

    @hk.without_apply_rng
    @hk.transform
    def layer(x):
        return hk.MultiHeadAttention(H, D_K, w_init=np.zeros)(x, x, x)

    with jax.enable_x64(True):
        return np.asarray(layer.apply(params, x))


FOUR = "pytorch", "keras", "flax", "haiku"


def run(library: str, weights, x) -> np.ndarray:
    """The output of a library's layer with these weights."""
    layers = dict(zip(FOUR, (pytorch_with, keras_with, flax_with, haiku_with), strict=True))
    return layers[library](weights, x)


@pytest.mark.parametrize(("source", "target"), [*permutations(FOUR, 2)])
def test_weights_move_between_torch_keras_flax_and_haiku(source, target, rng):
    """Weights move between PyTorch, Keras, Flax and Haiku, and the layers compute the same.

    Covers: the 12 directions between these four, with biases, in float64, to 1e-12.
    """
    x = tokens(rng)
    stored = qkv.dump(qkv.MultiHead.random(E, H, bias=True), source)
    moved = qkv.dump(qkv.load(stored, source, h=H), target)
    assert close(run(target, moved, x), run(source, stored, x))


def test_haiku_moves_to_flax_by_reshaping_and_to_torch_by_transposing(rng):
    """Haiku weights move to Flax by reshaping alone, and to PyTorch by transposing and stacking."""
    x = tokens(rng)
    stored = qkv.dump(qkv.MultiHead.random(E, H, bias=True), "haiku")
    w = {name: stored[f"{name}/w"] for name in ("query", "key", "value", "linear")}
    b = {name: stored[f"{name}/b"] for name in w}
    assert {array.shape for array in w.values()} == {(E, E)}

    flax = {"out/kernel": w["linear"].reshape(H, D_K, E), "out/bias": b["linear"]}
    for name in ("query", "key", "value"):
        flax[f"{name}/kernel"] = w[name].reshape(E, H, D_K)
        flax[f"{name}/bias"] = b[name].reshape(H, D_K)
    pytorch = {
        "in_proj_weight": np.concatenate([w["query"].T, w["key"].T, w["value"].T]),
        "in_proj_bias": np.concatenate([b["query"], b["key"], b["value"]]),
        "out_proj.weight": w["linear"].T.copy(),
        "out_proj.bias": b["linear"],
    }
    expected = haiku_with(stored, x)
    assert close(flax_with(flax, x), expected)
    assert close(pytorch_with(pytorch, x), expected)
    untransposed = pytorch | {"out_proj.weight": w["linear"]}
    assert far(pytorch_with(untransposed, x), expected)


def test_vit_of_google_moves_to_timm_by_reshaping_and_transposing(torch, rng):
    """Google's ViT moves to timm if each kernel is reshaped to a square and transposed."""
    x = tokens(rng)
    flax = qkv.dump(qkv.MultiHead.random(E, H, bias=True), "flax")
    names = "query", "key", "value"
    expected = flax_with(flax, x)

    layer = timm_code().Attention(E, num_heads=H, qkv_bias=True).double().eval()
    for turned in (True, False):
        squares = [flax[f"{name}/kernel"].reshape(E, E) for name in names]
        out = flax["out/kernel"].reshape(E, E)
        if turned:
            squares, out = [square.T for square in squares], out.T
        state = {
            "qkv.weight": np.concatenate(squares),
            "qkv.bias": np.concatenate([flax[f"{name}/bias"].reshape(-1) for name in names]),
            "proj.weight": out.copy(),
            "proj.bias": flax["out/bias"],
        }
        layer.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        with torch.no_grad():
            output = layer(torch.from_numpy(x)).numpy()
        assert close(output, expected) == turned
        assert far(output, expected) != turned


# Fused weights


def test_gpt_bigcode_with_the_sizes_of_santacoder_has_2304_rows(torch):
    """GPT-BigCode with the sizes of SantaCoder stores c_attn as (2304, 2048)."""
    library = transformers("gpt_bigcode")
    sizes = {"n_embd": 2048, "n_head": 16}
    with torch.device("meta"):
        one, many = (
            library.GPTBigCodeAttention(library.GPTBigCodeConfig(**sizes, multi_query=multi_query))
            for multi_query in (True, False)
        )
    assert isinstance(one.c_attn, torch.nn.Linear)
    assert one.c_attn.weight.shape == (2304, 2048)
    assert 16 * 128 + 128 + 128 == 3 * 768 == 2304
    assert many.c_attn.weight.shape == (3 * 2048, 2048)


def test_the_lines_of_the_table_of_fused_weights_cut_each_of_them(torch, rng):
    """The lines of PyTorch in the table of fused weights cut each weight as its layout says.

    Covers: the orders of the layouts of this site, with 8 heads of queries, in groups of 4 where an
    order has groups.
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


def test_key_rows_of_a_fused_bias_stay_small_in_training(torch):
    """The keys' part of a fused bias stays small while AdamW trains a layer without a rotation.

    Covers: one nn.MultiheadAttention of 4 heads, 150 steps on one task, with the seeds 0, 1 and 2.
    """
    nn = torch.nn
    causal = torch.ones(12, 12, dtype=torch.bool).triu(1)
    for seed in range(3):
        torch.manual_seed(seed)
        embed, layer, out = nn.Embedding(5, 16), nn.MultiheadAttention(16, 4), nn.Linear(16, 5)
        parameters = [each for module in (embed, layer, out) for each in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=1e-2)
        for _ in range(150):
            ids = torch.randint(0, 5, (12, 32))
            most = nn.functional.one_hot(ids, 5).cumsum(0).argmax(-1)  # the token seen most
            x = embed(ids)
            y = x + layer(x, x, x, attn_mask=causal, need_weights=False)[0]
            loss = nn.functional.cross_entropy(out(y).flatten(0, 1), most.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        queries, keys, values = layer.in_proj_bias.detach().chunk(3)
        assert 0 < keys.norm() < queries.norm() / 2
        assert keys.norm() < values.norm() / 2


# LoRA


def test_lora_stacked_in_thirds_trains_the_keys_of_gpt_neox(torch, rng):
    """A LoRA update that is stacked as queries, zeros, values trains the keys of GPT-NeoX."""
    library = transformers("gpt_neox")
    config = library.GPTNeoXConfig(hidden_size=E, num_attention_heads=H, attn_implementation="sdpa")
    layer = randomised(library.GPTNeoXAttention(config), rng)
    state = {name: array.clone() for name, array in layer.state_dict().items()}
    x, before = tokens(rng), qkv.load(state, "gpt-neox", h=H)
    update_Q, update_V = (rng.normal(size=(E, 2)) @ rng.normal(size=(2, E)) for _ in "QV")

    def with_update(update) -> qkv.MultiHead:
        weight = state["query_key_value.weight"] + torch.from_numpy(update)
        return qkv.load(state | {"query_key_value.weight": weight}, "gpt-neox", h=H)

    thirds = np.concatenate([update_Q, np.zeros((E, E)), update_V])
    stacked = with_update(thirds)
    scattered = with_update(thirds.reshape(3, H, D_K, E).swapaxes(0, 1).reshape(3 * E, E))

    heads = update_Q.reshape(H, D_K, E)
    assert close(stacked.W_Q[0] - before.W_Q[0], heads[0].T)
    assert close(stacked.W_K[0] - before.W_K[0], heads[1].T)  # head 1's queries, in head 0's keys
    assert np.array_equal(stacked.W_Q[1], before.W_Q[1])
    assert np.array_equal(stacked.W_V[0], before.W_V[0])
    assert close(scattered.W_Q - before.W_Q, heads.swapaxes(1, 2))
    assert close(scattered.W_V - before.W_V, update_V.reshape(H, D_K, E).swapaxes(1, 2))
    assert np.array_equal(scattered.W_K, before.W_K)

    outputs = []
    for mh in (scattered, stacked):
        weights = qkv.dump(mh, "gpt-neox")
        layer.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        outputs.append(attend(layer, x)[0])
        assert close(outputs[-1], replace(mh, between=())(x))
    assert far(*outputs)


def test_lora_is_added_transposed_to_each_conv1d_of_gpt2(torch, rng):
    """A LoRA update B A is added transposed to each Conv1D of GPT-2, to the square c_proj too."""
    library = transformers("gpt2")
    layer = randomised(library.GPT2Attention(library.GPT2Config(n_embd=E, n_head=H)), rng)
    x = torch.from_numpy(tokens(rng))
    for module, out in ((layer.c_attn, 3 * E), (layer.c_proj, E)):
        A, B = (
            torch.from_numpy(rng.normal(size=(2, E))),
            torch.from_numpy(rng.normal(size=(out, 2))),
        )
        scale = 16 / 2  # lora_alpha / r
        with torch.no_grad():
            adapted = module(x) + scale * (x @ A.T @ B.T)
            merged = module.weight + scale * (B @ A).T
            assert close(x @ merged + module.bias, adapted)
            assert module.weight.shape == (E, out)
            if out != E:
                with pytest.raises(RuntimeError, match="must match the size"):
                    module.weight + scale * (B @ A)
            else:
                assert far(x @ (module.weight + scale * (B @ A)) + module.bias, adapted)


# Biases


def small(library, model: str, **options):
    """A small model of Transformers with grouped heads, in float64 and with random weights."""
    config = getattr(library, f"{model}Config")(
        hidden_size=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=11,
        num_hidden_layers=2,
        vocab_size=13,
        tie_word_embeddings=False,
        **options,
    )
    return getattr(library, f"{model}ForCausalLM")(config).double().eval()


def logits(model, ids):
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        return model(ids).logits.numpy()


def test_qwen2_loses_its_biases_under_llama_without_a_word(torch, rng):
    """Qwen2 under Llama's class loses the biases of queries, keys and values with strict=False."""
    qwen = randomised(small(transformers("qwen2"), "Qwen2"), rng)
    ids = torch.arange(7)[None]
    expected = logits(qwen, ids)

    plain = small(transformers("llama"), "Llama")
    told = plain.load_state_dict(qwen.state_dict(), strict=False)
    assert told.missing_keys == []
    dropped = {name.rpartition("self_attn.")[2] for name in told.unexpected_keys}
    assert dropped == {"q_proj.bias", "k_proj.bias", "v_proj.bias"}
    assert len(told.unexpected_keys) == 3 * 2  # of two layers
    assert far(logits(plain, ids), expected)

    biased = small(transformers("llama"), "Llama", attention_bias=True)
    told = biased.load_state_dict(qwen.state_dict(), strict=False)
    assert told.unexpected_keys == []
    assert {name.rpartition("self_attn.")[2] for name in told.missing_keys} == {"o_proj.bias"}
    with torch.no_grad():
        for layer in biased.model.layers:
            layer.self_attn.o_proj.bias.zero_()
    assert np.allclose(logits(biased, ids), expected, rtol=0, atol=1e-5)  # angles are in float32
    with torch.no_grad():
        for layer in biased.model.layers:
            layer.self_attn.k_proj.bias.zero_()
    assert far(logits(biased, ids), expected)


def test_a_constant_key_bias_cancels_until_it_is_large(torch):
    """A key bias of 1000 changes SDPA's output in float32 a little, 1e6 ruins it, NaN gives NaN.

    Covers: 4 heads of width 16, 20 tokens, random normal queries, keys and values, on the CPU.
    """
    generator = torch.Generator().manual_seed(0)
    Q, K, V = torch.randn(3, 1, 4, 20, 16, generator=generator)
    attend = torch.nn.functional.scaled_dot_product_attention
    direction = torch.randn(4, 1, 16, generator=generator)
    expected = attend(Q, K, V)

    def error(size: float) -> float:
        return (attend(Q, K + size * direction, V) - expected).abs().max().item()

    assert error(0) == 0
    assert error(1) < 1e-5
    assert 1e-5 < error(1e3) < 1e-2
    assert error(1e6) > 0.1
    assert np.isnan(error(float("nan")))
    assert not np.isfinite(error(1e38))
    assert torch.tensor(1e5).half().isinf()


def test_whisper_packed_with_a_key_bias_of_zeros_computes_the_same(torch, rng):
    """Whisper packed into one layer with a bias of 3E computes the same with zeros for its keys."""
    library = transformers("whisper")
    layer = randomised(library.WhisperAttention(E, H, config=library.WhisperConfig()), rng)
    x = tokens(rng)
    state = layer.state_dict()
    names = "q_proj", "k_proj", "v_proj"
    zeros = torch.zeros(E, dtype=torch.float64)
    packed = torch.nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64)
    packed.load_state_dict(
        {
            "in_proj_weight": torch.cat([state[f"{name}.weight"] for name in names]),
            "in_proj_bias": torch.cat([state.get(f"{name}.bias", zeros) for name in names]),
            "out_proj.weight": state["out_proj.weight"],
            "out_proj.bias": state["out_proj.bias"],
        }
    )
    assert close(called(packed, x, x, x), called(layer, x))
    with torch.no_grad():
        packed.in_proj_bias[E : 2 * E] = float("nan")
    assert np.isnan(called(packed, x, x, x)).all()


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


def shards(mh: qkv.MultiHead, tp: int) -> list[qkv.MultiHead]:
    """The heads of each rank: its own queries, and whole heads of keys and values."""
    made = []
    for rank in range(tp):
        own = slice(rank * mh.h // tp, (rank + 1) * mh.h // tp)
        first = rank * mh.h_kv // tp
        kv = slice(first, max(first + 1, (rank + 1) * mh.h_kv // tp))
        made.append(replace(mh, W_Q=mh.W_Q[own], W_K=mh.W_K[kv], W_V=mh.W_V[kv], W_O=mh.W_O[own]))
    return made


def test_llama_on_more_ranks_than_key_heads_is_exact_if_whole_key_heads_are_repeated(torch, rng):
    """Llama on more ranks than key heads is exact if each rank holds a whole key head.

    Covers: 8 heads of queries over 2, on 1, 2, 4 and 8 ranks, in float64.
    """
    library = transformers("llama")

    def llama(h: int, h_kv: int):
        config = library.LlamaConfig(
            hidden_size=24,
            num_attention_heads=h,
            num_key_value_heads=h_kv,
            head_dim=4,
            attn_implementation="sdpa",
        )
        return library.LlamaAttention(config, layer_idx=0).double().eval()

    whole = randomised(llama(8, 2), rng)
    x, state = tokens(rng, 24), whole.state_dict()
    expected = attend(whole, x)[0]
    for tp in (1, 2, 4, 8):
        outputs = []
        for shard in shards(qkv.load(state, "llama", h=8, h_kv=2), tp):
            layer = llama(shard.h, shard.h_kv)
            weights = {name: torch.from_numpy(w) for name, w in qkv.dump(shard, "llama").items()}
            layer.load_state_dict(weights)
            outputs.append(attend(layer, x)[0])
        assert len(outputs) == tp
        assert close(sum(outputs), expected)

    evenly = llama(2, 1)  # on 4 ranks
    half_a_head = state["k_proj.weight"].chunk(4)[0]
    assert half_a_head.shape == (2, 24)
    evenly.k_proj.weight = torch.nn.Parameter(half_a_head)
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        attend(evenly, x)[0]


# Counts


def test_torch_counts_no_operations_of_its_fused_attention_on_a_cpu(torch):
    """PyTorch's FlopCounterMode counts no operations of its fused attention on a CPU."""
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode
    kernels = pytest.importorskip("torch.nn.attention")
    n, h, d_k = 64, 8, 16
    Q, K, V = torch.randn(3, 1, h, n, d_k)
    counted = {}
    for kernel in (kernels.SDPBackend.MATH, kernels.SDPBackend.FLASH_ATTENTION):
        with kernels.sdpa_kernel(kernel), counter(display=False) as count, torch.no_grad():
            torch.nn.functional.scaled_dot_product_attention(Q, K, V)
        counted[kernel.name] = count.get_total_flops()
    assert counted == {"MATH": 4 * n * n * d_k * h, "FLASH_ATTENTION": 0}
    assert counted["MATH"] == 2_097_152


def matrices(module) -> int:
    """How many numbers the matrices of a module hold; norms and biases have one axis."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.dim() == 2)


@pytest.mark.parametrize(
    "model", [each for each in counts.models() if "type" in each], ids=lambda model: model["name"]
)
def test_a_layer_of_transformers_holds_as_many_weights_as_the_table_counts(model, torch):
    """A layer of Transformers with a model's sizes holds as many weights as the table counts.

    Covers: the models of the table that Transformers has, the attention and the MLP of one layer;
    of DeepSeek-V3 the attention. Built without numbers, on PyTorch's device "meta".
    """
    library = transformers(model["type"])
    counted = counts.cost_of(model, 1)
    h_kv = model.get("h_kv", model["h"])
    with torch.device("meta"):
        if model["type"] == "gpt2":
            config = library.GPT2Config(n_embd=model["d_model"], n_head=model["h"])
            layer = library.GPT2Block(config, layer_idx=0)
            attention, mlp = layer.attn, layer.mlp
        elif model["type"] == "bert":
            layer = library.BertLayer(library.BertConfig())
            attention = layer.attention
            mlp = torch.nn.ModuleList([layer.intermediate, layer.output])
        elif model["type"] == "deepseek_v3":
            attention = library.DeepseekV3Attention(library.DeepseekV3Config(), layer_idx=0)
            mlp = torch.nn.Identity()
        else:
            title = model["type"].title()
            config = getattr(library, f"{title}Config")(
                hidden_size=model["d_model"],
                num_attention_heads=model["h"],
                num_key_value_heads=h_kv,
                head_dim=model.get("d_k", model["d_model"] // model["h"]),
                intermediate_size=model["d_ff"],
            )
            layer = getattr(library, f"{title}DecoderLayer")(config, layer_idx=0)
            attention, mlp = layer.self_attn, layer.mlp
    assert matrices(attention) == counted.attention_parameters
    assert matrices(mlp) == counted.mlp_parameters
