"""Names of PyTorch, NumPy, SciPy, JAX and HIPS autograd that differ or are missing in agrad: a table for messages.

A name that exists under the same name in another namespace needs no entry: it is looked up in `NAMESPACES`. A name with a
dot applies only to that namespace of agrad.
"""

from __future__ import annotations

#: Where a name is looked up, in this order.
NAMESPACES = (
    "agrad",
    "agrad.linalg",
    "agrad.extra",
    "agrad.special",
    "agrad.fft",
    "agrad.func",
    "agrad.autograd",
    "agrad.nn",
    "agrad.nn.functional",
    "agrad.optim",
    "agrad.optim.lr_scheduler",
    "agrad.random",
    "agrad.nn.init",
    "agrad.nn.utils",
    "agrad.nn.utils.rnn",
    "agrad.nn.utils.parametrizations",
    "agrad.tree",
    "agrad.utils",
    "agrad.utils.data",
    "agrad.utils.checkpoint",
    "agrad.autograd.graph",
    "agrad.autograd.forward_ad",
    "agrad.view",
    "agrad.scipy.linalg",
    "agrad.scipy.signal",
    "agrad.scipy.integrate",
    "agrad.scipy.interpolate",
    "agrad.scipy.optimize",
    "agrad.scipy.sparse.linalg",
    "agrad.scipy.special",
    "agrad.scipy.stats",
    "agrad.sparse",
    "agrad.numpy",
    "agrad.numpy.linalg",
    "agrad.numpy.random",
)

#: PyTorch's functions of these names that become different functions with `dim`, by name or by position.
OTHERWISE = {
    "nonzero": "agrad.nonzero(x) gives a tuple of indices, and x.nonzero() PyTorch's matrix",
    **{
        name: f"PyTorch's divides by n - 1, as x.{name}(dim, unbiased=True) does; agrad.{name} has axis= for it"
        for name in ("std", "var")
    },
}

#: Keywords of PyTorch, NumPy, JAX and Keras, and the names that functions and classes here may have for them.
KEYWORDS: dict[str, tuple[str, ...]] = {
    "M": ("n_cols",),
    "N": ("n_rows",),
    "T": ("T_max",),
    "a": ("x", "low"),
    "a_max": ("max",),
    "a_min": ("min",),
    "argnum": ("argnums",),
    "axes": ("axis", "dim", "dims"),
    "axis": ("dim",),
    "axis1": ("dim0", "dim1"),
    "axis2": ("dim1", "dim2"),
    "b": ("high",),
    "beta1": ("betas",),
    "beta2": ("betas",),
    "beta_1": ("betas",),
    "beta_2": ("betas",),
    "data_source": ("dataset",),
    "ddof": ("correction",),
    "decay": ("weight_decay",),
    "decay_rate": ("gamma",),
    "decimals": ("digits",),
    "diagonal": ("k",),
    "dim": ("axis",),
    "dimension": ("dim", "axis"),
    "dims": ("axis", "axes", "dim"),
    "end": ("stop",),
    "epsilon": ("eps",),
    "features": ("num_features", "out_features", "normalized_shape"),
    "filters": ("out_channels",),
    "hidden": ("hx",),
    "in_channels": ("in_features",),
    "in_dim": ("in_features", "input_size"),
    "initial_state": ("hx",),
    "input": ("x", "x1"),
    "input_dim": ("num_embeddings", "in_features", "input_size"),
    "keep_dims": ("keepdims", "keepdim"),
    "keepdim": ("keepdims",),
    "keepdims": ("keepdim",),
    "kernel": ("kernel_size",),
    "kernel_shape": ("kernel_size",),
    "l2": ("weight_decay",),
    "learning_rate": ("lr",),
    "m": ("n_cols",),
    "mask": ("attn_mask", "src_mask"),
    "n": ("n_rows",),
    "negative_input_slope": ("negative_slope",),
    "newshape": ("shape",),
    "nhead": ("num_heads",),
    "num_steps": ("total_steps", "num"),
    "obj": ("data",),
    "object": ("obj", "data"),
    "ord": ("p",),
    "other": ("x2",),
    "out_channels": ("out_features",),
    "out_dim": ("out_features",),
    "output_dim": ("embedding_dim", "out_features"),
    "pad": ("padding",),
    "pool_size": ("kernel_size",),
    "prob": ("p",),
    "rate": ("p",),
    "reps": ("repeats",),
    "rho": ("alpha", "momentum"),
    "right": ("side",),
    "self": ("x",),
    "shifts": ("shift",),
    "size": ("shape",),
    "slope": ("negative_slope",),
    "step": ("step_size",),
    "strides": ("stride",),
    "tensors": ("arrays",),
    "unbiased": ("correction",),
    "units": ("out_features", "hidden_size"),
    "use_bias": ("bias",),
    "val": ("fill_value", "value"),
    "value": ("fill_value",),
    "x": ("x1", "input"),
    "y": ("x2",),
}

#: Those of distributions.
OF_DISTRIBUTIONS = {
    "alpha": ("concentration", "concentration1"),
    "beta": ("rate", "concentration0"),
    "cov": ("covariance_matrix",),
    "covariance": ("covariance_matrix",),
    "mean": ("loc",),
    "mu": ("loc",),
    "p": ("probs",),
    "probabilities": ("probs",),
    "sigma": ("scale",),
    "std": ("scale",),
    "stddev": ("scale",),
}
KEYWORDS |= OF_DISTRIBUTIONS

#: What to write instead of a keyword that a function, ``{}``, has no name for.
NO_KEYWORD = {
    "alpha": "multiply the second operand by it",
    "casting": "convert the operands with x.to(dtype), and leave it out",
    "decimals": "tensors' method takes it: x.round(decimals=2)",
    "dtype": "convert what it returns: {}(...).to(dtype)",
    "generator": "leave it out, and call {} in a block of agrad.random.using(generator)",
    "inplace": "leave it out: {} returns a new tensor",
    "keepdims": "index what it returns with None to keep the axis",
    "layout": "leave it out: tensors are dense",
    "like": "name the backend: device=",
    "memory_format": "leave it out",
    "ndmin": "index what it returns with None for each missing axis",
    "order": "leave it out: the array library chooses the layout",
    "out": "to fill a tensor write out[...] = {}(...)",
    "pin_memory": "leave it out: arrays need no pinning",
    "reduce": "use reduction='none', 'mean' or 'sum'",
    "return_index": "agrad.unique_all gives indices, inverse and counts",
    "size_average": "use reduction='mean' or 'sum'",
    "subok": "leave it out: what it returns is a Tensor",
    "where": "choose afterwards: agrad.where(condition, {}(...), otherwise)",
}

#: What to write for a call without these arguments, which other libraries allow.
WITHOUT = {
    ("squeeze", "axis"): "x.squeeze() removes every axis of length 1",
    ("where", "x1"): "agrad.nonzero(condition) gives the indices where a condition holds",
}

#: agrad's names: the names used elsewhere.
_HERE = {
    # dtypes
    "agrad.float32": "FloatType",
    "agrad.float64": "float_ numpy.float",
    "agrad.int64": "int_",
    "agrad.uint8": "byte",
    "agrad.complex64": "csingle",
    "agrad.complex128": "complex_ numpy.complex",
    "agrad.bool": "bool_",
    # elementwise
    "agrad.abs": "fabs",
    "agrad.conj": "conjugate",
    "agrad.bitwise_invert": "invert",
    "agrad.bitwise_left_shift": "left_shift shift_left",
    "agrad.bitwise_right_shift": "right_shift shift_right_arithmetic",
    "agrad.pow": "power integer_pow",
    "agrad.round": "rint around",
    "agrad.remainder": "mod",
    "agrad.isfinite": "is_finite",
    # shapes, choosing
    "agrad.asarray": "array scalar_tensor",
    "agrad.moveaxis": "rollaxis",
    "agrad.flip": "rev",
    "agrad.nonzero": "flatnonzero",
    "agrad.max": "reduce_max",
    "agrad.min": "reduce_min",
    "agrad.sum": "reduce_sum",
    "agrad.where": "select_n",
    "agrad.topk": "top_k",
    "agrad.astype": "convert_element_type",
    "agrad.extra.array_equal": "array_equiv",
    # linear algebra
    "agrad.matmul": "batch_matmul dot_general",
    "agrad.linalg.vector_norm": "frobenius_norm",
    "agrad.linalg.eigh": "symeig",
    "agrad.linalg.matrix_norm": "nuclear_norm",
    "agrad.scipy.linalg.sqrtm": "matrix_sqrth",
    "agrad.scipy.linalg.lu": "lu_unpack",
    "agrad.scipy.linalg.solve_triangular": "triangular_solve",
    # special functions
    "agrad.special.j0": "bessel_j0",
    "agrad.special.j1": "bessel_j1",
    "agrad.special.y0": "bessel_y0",
    "agrad.special.y1": "bessel_y1",
    "agrad.special.i0": "modified_bessel_i0",
    "agrad.special.i1": "modified_bessel_i1",
    "agrad.special.i0e": "bessel_i0e",
    "agrad.special.i1e": "bessel_i1e",
    "agrad.special.k0": "modified_bessel_k0",
    "agrad.special.k1": "modified_bessel_k1",
    "agrad.special.k0e": "scaled_modified_bessel_k0",
    "agrad.special.k1e": "scaled_modified_bessel_k1",
    "agrad.special.erfinv": "erf_inv",
    "agrad.special.betainc": "regularized_incomplete_beta",
    # samples
    "agrad.random.manual_seed": "random.seed PRNGKey random.key",
    "agrad.random.randn": "random.normal random.standard_normal standard_normal",
    "agrad.random.rand": "random.uniform random.random",
    "agrad.random.permutation": "random.shuffle",
    "agrad.random.using": "fork_rng",
    "agrad.random.Generator": "default_rng RandomState thread_safe_generator",
    "agrad.numpy.random.beta": "random.beta",
    "agrad.numpy.random.dirichlet": "random.dirichlet",
    "agrad.numpy.random.gamma": "random.gamma",
    "agrad.numpy.random.poisson": "random.poisson",
    # transforms and the graph
    "agrad.compile": "jit script",
    "agrad.func.capture": "make_jaxpr make_fx symbolic_trace fx",
    "agrad.func.eval_shape": "eval_shape",
    "agrad.func.ShapeDtype": "ShapeDtypeStruct",
    "agrad.func.scan": "scan lax.scan",
    "agrad.func.implicit": "custom_root custom_linear_solve",
    "agrad.Function": "custom_vjp custom_jvp custom_gradient",
    "agrad.autograd.detect_anomaly": "debug_nans",
    "agrad.utils.checkpoint.checkpoint": "remat agrad.checkpoint",
    "agrad.to_device": "device_put",
    "agrad.backends": "devices device_count",
    "agrad.tree": "tree_util pytree",
    "agrad.tree.map": "tree_map tree_multimap",
    "agrad.tree.flatten": "tree_flatten tree_leaves tree.leaves",
    "agrad.tree.unflatten": "tree_unflatten",
    "agrad.tree.ravel": "ravel_pytree flatten_func",
    "agrad.set_default_backend": "set_default_device set_backend",
    "agrad.set_default_dtype": "set_default_tensor_type",
    "agrad.Tensor": "ndarray Array",
    "agrad.elementwise_grad": "egrad",
    "agrad.hessian": "hess",
    "agrad.jacrev": "jac",
    "agrad.nn.functional": "F",
    "agrad.nn.init": "initializers",
    "agrad.extra.fill_diagonal": "fill_diagonal_",
    "agrad.view.graph": "make_dot",
    # networks and optimisers
    "agrad.nn.functional.logsigmoid": "LogSigmoid log_sigmoid",
    "agrad.nn.functional.silu": "swish",
    "agrad.nn.SiLU": "Swish",
    "agrad.nn.Linear": "Dense",
    "agrad.nn.MSELoss": "MSE",
    "agrad.nn.BCELoss": "BCE",
    "agrad.nn.functional.nll_loss": "nll",
    "agrad.nn.functional.cross_entropy": "softmax_cross_entropy",
    "agrad.nn.functional.scaled_dot_product_attention": "dot_product_attention",
    "agrad.nn.NLLLoss": "NLLLoss2d",
    "agrad.nn.functional.hardtanh": "hard_tanh",
    "agrad.nn.functional.interpolate": "upsample upsample_nearest upsample_bilinear",
    "agrad.nn.Upsample": "UpsamplingNearest2d UpsamplingBilinear2d",
    "agrad.nn.init.orthogonal_": "orthogonal",
    "agrad.nn.init.xavier_uniform_": "xavier_uniform glorot_uniform",
    "agrad.nn.init.xavier_normal_": "xavier_normal glorot_normal",
    "agrad.nn.init.kaiming_uniform_": "kaiming_uniform he_uniform",
    "agrad.nn.init.kaiming_normal_": "kaiming_normal he_normal",
    "agrad.nn.init.constant_": "nn.init.constant",
    "agrad.nn.init.normal_": "nn.init.normal",
    "agrad.utils.data": "utils.data.dataloader utils.data.dataset utils.data.sampler",
    "agrad.distributions.Bernoulli": "distributions.bernoulli",
    "agrad.distributions.Beta": "distributions.beta",
    "agrad.distributions.Categorical": "distributions.categorical",
    "agrad.distributions.Dirichlet": "distributions.dirichlet",
    "agrad.distributions.Gamma": "distributions.gamma",
    "agrad.distributions.MultivariateNormal": "distributions.multivariate_normal",
    "agrad.distributions.Normal": "distributions.normal",
    "agrad.distributions.Uniform": "distributions.uniform",
    "agrad.distributions.kl_divergence": "distributions.kl",
    "agrad.nn.init.uniform_": "nn.init.uniform",
    "agrad.nn.utils.clip_grad_norm_": "clip_grad_norm clip_by_global_norm",
    "agrad.nn.utils.clip_grad_value_": "clip_grad_value",
    "agrad.func.functional_call": "stateless make_functional make_functional_with_buffers",
    "agrad.func.stack_module_state": "combine_state_for_ensemble",
    # NumPy names removed in NumPy 2
    "agrad.numpy.trapezoid": "numpy.trapz",
    "agrad.numpy.prod": "product",
    "agrad.numpy.cumprod": "cumproduct",
    "agrad.numpy.any": "sometrue",
    "agrad.numpy.all": "alltrue",
    "agrad.numpy.isin": "in1d",
    "agrad.numpy.round": "numpy.round_",
    "agrad.numpy.inf": "Inf Infinity infty PINF",
    "agrad.numpy.nan": "NaN NAN",
    "agrad.numpy.result_type": "find_common_type",
    # HIPS autograd's
    "agrad.compat.autograd.make_ggnvp": "make_ggnvp make_ggnvp_func",
    "agrad.compat.autograd.multigrad_dict": "multigrad_dict",
    "agrad.compat.autograd.hessian_tensor_product": "hessian_tensor_product",
    "agrad.compat.autograd.tensor_jacobian_product": "tensor_jacobian_product",
    "agrad.compat.autograd.vector_jacobian_product": "vector_jacobian_product",
    "agrad.compat.autograd.extend": "agrad.extend",
    "agrad.compat.autograd.misc": "agrad.misc",
    "agrad.compat.autograd.test_util": "agrad.test_util",
    "agrad.compat.autograd.tracer": "agrad.tracer",
    "agrad.compat.autograd.builtins": "agrad.builtins",
    "agrad.compat.autograd.wrap_util": "agrad.wrap_util",
    "agrad.compat.autograd.util": "agrad.util",
    "agrad.compat.autograd.differential_operators": "agrad.differential_operators",
    # SciPy's and Dask's
    "agrad.scipy.stats": "stats",
    "agrad.scipy.signal": "signal",
    "agrad.scipy.integrate": "integrate",
    "agrad.scipy.optimize": "optimize",
    "agrad.numpy": "np jnp",
    "agrad_dask.from_zarr": "from_zarr open_zarr",
    "agrad_dask.from_npy_stack": "from_npy_stack",
    "agrad_dask.from_xarray": "from_xarray",
    "agrad_dask.from_npy": "from_npy",
    "agrad_dask.map_blocks": "map_blocks blockwise",
    "agrad_dask.map_overlap": "map_overlap",
    "agrad_dask.apply_gufunc": "apply_gufunc",
}

#: Missing names: what to do instead.
_INSTEAD = {
    "use agrad.tensor(data, dtype=...), or agrad.zeros(shape, dtype=...)": ("BFloat16Tensor CharTensor"),
    "leave it out: the switches of NumPy's, CuPy's and Dask's libraries are their own": "mkldnn openmp",
    "use agrad.float16, or agrad.float32: no array library knows it everywhere": "bfloat16",
    'devices are backends: x.to_device("cupy"), agrad.set_default_backend("cupy"); agrad.backends() lists them': (
        "get_device current_device mps xpu ipu get_default_device"
    ),
    "CuPy has it: cupy.cuda": (
        "cuda.synchronize cuda.empty_cache cuda.memory_allocated cuda.max_memory_allocated cuda.memory_reserved cuda.set_device"
        " cuda.reset_peak_memory_stats cuda.get_device_name cuda.get_device_properties cuda.get_device_capability cuda.Stream"
        " cuda.stream cuda.Event cuda.current_stream cuda.current_device cuda.device cuda.mem_get_info"
    ),
    "results do not share memory with their operands: use slices, reshape or agrad.permute_dims": (
        "as_strided as_strided_ set_ storage untyped_storage storage_offset stride data_ptr share_memory_ is_shared empty_strided"
    ),
    "use agrad.reshape, or slices: no tensor changes its shape": "resize_ resize_as_",
    "use float32; scale the loss by hand where float16 is needed": "autocast GradScaler amp",
    "use agrad.func.grad_and_value or agrad.value_and_grad": "fwd_and_bwd",
    "use x.detach()": "stop_gradient lax.stop_gradient",
    "use agrad.vmap, or Dask's chunks: agrad_dask.value_and_grad": "pmap shard_map sharding distributed",
    "write a loop: the graph is recorded as it runs, and agrad.compile keeps it": (
        "fori_loop while_loop cond switch lax associative_scan"
    ),
    "use agrad.Function, or declare the op: agrad.elementwise, agrad.custom": "library pure_callback",
    "use agrad.compat.autograd.extend, which is HIPS autograd's, or agrad.Function": (
        "defvjp defjvp defvjp_argnum primitive notrace_primitive"
    ),
    "use value, pull = agrad.func.vjp(f, x), or HIPS autograd's: agrad.compat.autograd.make_vjp": "make_vjp",
    "use agrad.func.jvp(f, (x,), (v,)), or HIPS autograd's: agrad.compat.autograd.make_jvp": "make_jvp make_jvp_reversemode",
    "use agrad.func.hvp(f, (x,), (v,)), or HIPS autograd's: agrad.compat.autograd.make_hvp": (
        "make_hvp hessian_vector_product make_hessian_vector_product"
    ),
    "use agrad.grad(f, has_aux=True), or HIPS autograd's: agrad.compat.autograd.grad_and_aux": "grad_and_aux",
    "use agrad.grad(f, argnums), or HIPS autograd's: agrad.compat.autograd.grad_named": "grad_named",
    "use agrad.grad(f, holomorphic=True), or HIPS autograd's: agrad.compat.autograd.holomorphic_grad": "holomorphic_grad",
    "use agrad.autograd.gradcheck, or HIPS autograd's: agrad.compat.autograd.test_util": "check_grads check_vjp check_jvp",
    "use agrad.tree.ravel and agrad.optim, or HIPS autograd's: agrad.compat.autograd.misc": "optimizers fixed_points",
    "use agrad.numpy.random, which has NumPy's distributions": "poisson_ cauchy_ geometric_ log_normal_",
    "use mean + std * agrad.randn(shape)": "trunc_normal_",
    "use agrad.numpy.random.binomial": "binomial",
    "leave memory_format= out: the array library chooses the layout": (
        "channels_last channels_last_3d contiguous_format preserve_format"
    ),
    "a Variable is the tensor itself: use x, after x.requires_grad_() if it is asked for": "Variable",
    "use d.log_prob(x).sum(-1)": "distributions.Independent",
    "use agrad.logsumexp(mixture.logits + components.log_prob(x[..., None]), -1)": "distributions.MixtureSameFamily",
    "use agrad.scipy.stats, whose densities have derivatives by the parameters: laplace, expon, poisson, lognorm, binom": (
        "distributions.Binomial distributions.Cauchy distributions.Chi2 distributions.Exponential distributions.Geometric"
        " distributions.Gumbel distributions.HalfNormal distributions.Laplace distributions.LogNormal distributions.Pareto"
        " distributions.Poisson distributions.StudentT distributions.Weibull"
    ),
    "use agrad.distributions.Categorical, and agrad.nn.functional.one_hot": "distributions.OneHotCategorical",
    "use agrad.nn.functional.gumbel_softmax": "distributions.RelaxedOneHotCategorical",
    "use the base's log_prob, and add the logarithm of the determinant": "distributions.TransformedDistribution",
    "use low + (high - low) * agrad.rand(shape)": "uniform",
    "use x - agrad.trunc(x / y) * y": "fmod_",
    "use agrad.nn.functional.pairwise_distance in forward": "PairwiseDistance",
    "use agrad.nn.functional.cosine_similarity in forward": "CosineSimilarity",
    "use agrad.extra.cdist, and its upper triangle": "pdist",
    "use beta * x + alpha * (a @ b)": "addmm_ sspaddmm",
    "use agrad.numpy.logspace, or 10 ** agrad.linspace(...)": "geomspace",
    "use agrad.arange": "range iota",
    "use agrad.extra.tril_indices and agrad.extra.triu_indices": "tril_indices_from triu_indices_from",
    "use agrad.linalg.svd(x, full_matrices=False)": "svd_lowrank pca_lowrank lobpcg",
    "use s = agrad.linalg.svdvals(x), and s[..., 0] / s[..., -1]": "linalg.cond",
    "use agrad.linalg.cholesky, which raises where there is none": "cholesky_ex inv_ex solve_ex ldl_factor_ex",
    "use agrad.linalg.solve": "ldl_factor ldl_solve tensorsolve",
    "use agrad.linalg.solve, or agrad.scipy.linalg.lu, which gives p, l and u apart": "lu_factor lu_factor_ex lu_solve",
    "use agrad.linalg.inv(l @ agrad.matrix_transpose(l))": "cholesky_inverse",
    "use agrad.linalg.inv of the reshaped tensor": "tensorinv",
    "use agrad.linalg.qr": "geqrf orgqr ormqr householder_product",
    "use u, _, vh = agrad.linalg.svd(x, full_matrices=False): u @ vh is the unitary factor": "linalg.polar scipy.linalg.polar",
    "tensors are dense, and agrad.sparse has matrices that are not: agrad.sparse_coo_tensor, x.to_sparse(), agrad.sparse.from_scipy": (
        "sparse_csr_tensor to_dense is_sparse coalesce indices_ values sparse_coo SparseAdam sparse_ sparse_dim dense_dim sparse_mask"
    ),
    "use agrad.fft.fftn and agrad.conj": "hfft2 ihfft2 hfftn ihfftn",
    "use agrad.fft.rfft of the mirrored tensor": "dct idct dst idst",
    "any length will do; SciPy's is for arrays": "next_fast_len",
    "use agrad.fft.rfft of the windows: x[starts[:, None] + agrad.arange(n)] * window": "stft istft spectrogram",
    "use agrad.numpy.hanning, hamming, blackman or bartlett": "hann_window hamming_window blackman_window bartlett_window",
    "use agrad.numpy.kaiser": "kaiser_window",
    "use agrad.special.jv(n + 0.5, x) * (agrad.pi / 2 / x) ** 0.5": "spherical_bessel_j0 spherical_jn",
    "write its recurrence": (
        "legendre eval_legendre airy_ai chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w"
        " hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p"
        " shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v"
        " shifted_chebyshev_polynomial_w"
    ),
    "the backend chooses: set the array library's own": (
        "get_num_threads set_num_threads set_float32_matmul_precision use_deterministic_algorithms set_flush_denormal"
    ),
    "read them with the array library, then agrad.asarray": "from_file fromfile frombuffer",
    "a leaf is made by agrad.tensor(x, requires_grad=True)": "Buffer UninitializedParameter",
    "use copy.deepcopy(x)": "deepcopy",
    "use agrad.load: it reads what agrad.save wrote": "load_npz",
    "build the model here, and agrad.load its weights": "hub model_zoo",
    "numbers follow one another: agrad.manual_seed(seed) begins them, agrad.random.Generator(seed) is one of its own": (
        "random.split fold_in"
    ),
    "use agrad.numpy.random.choice(n, p=p)": "categorical",
    "draw with SciPy, and agrad.asarray": "truncated_normal",
    "use agrad.isdtype(x.dtype, kind)": "is_signed iscomplexobj isrealobj issubdtype",
    "use agrad.profile": "profiler",
    "use agrad.func.linearize and agrad.func.vjp": "linear_transpose",
    "call the function as it is": "disable_jit functionalize",
    "use x.clone()": "new narrow_copy",
    "use agrad.scatter_reduce, or agrad.extra.scatter_add": "index_reduce segment_sum",
    "use agrad.where(mask, source, x) with a source of the same shape": "masked_scatter masked_scatter_",
    "use agrad.extra.diag_embed, or x[...] = values on a clone": "diagonal_scatter select_scatter slice_scatter",
    "use slices: x[a:b], x[:, a:b]": "dynamic_slice slice_in_dim dynamic_index_in_dim dynamic_update_slice",
    "use agrad.autograd.set_detect_anomaly": "set_anomaly_enabled",
    "use f(x) as it is: nothing is asynchronous that would need it": "block_until_ready",
    "use agrad.numpy.histogram": "histc",
    "use itertools.combinations of indices": "combinations",
    "use x.split(sizes)": "split_with_sizes unsafe_split unsafe_split_with_sizes",
    "use x.shape == y.shape": "is_same_size",
    "use agrad.sum over the axes": "sum_to_size",
    "use functions of tensors: a loop over elements is not differentiated": "apply_ map_ map2_",
    "use agrad.astype(x, agrad.int8)": "char",
    "use dtype=agrad.float64, or agrad.set_default_dtype": "enable_x64",
    "use agrad.log(-agrad.expm1(-x))": "log1mexp",
    "use (x + agrad.sqrt(x**2 + b)) / 2": "squareplus",
    "use agrad.nn.functional.layer_norm": "standardize",
    "einops takes tensors after `import agrad.einops`": "rearrange",
    # networks
    "use agrad.nn.BatchNorm1d or agrad.nn.BatchNorm2d, by the number of axes": "BatchNorm",
    "use agrad.nn.Conv1d or agrad.nn.Conv2d, by the number of axes": "nn.Conv Conv4d",
    "use agrad.nn.MaxPool1d or agrad.nn.MaxPool2d, by the number of axes": "MaxPool",
    "make the modules in __init__, and call them in forward": "nn.compact",
    "make the module: its weights are drawn at once": "skip_init",
    "multiply the weights by a mask in forward": "prune",
    "there are no quantised dtypes: use float16 or float32": "quantized quantization",
    "fold it by hand: scale the weights by weight / (running_var + eps) ** 0.5": "fuse_conv_bn_eval",
    "draw it: 1 / fan_in ** 0.5 * agrad.randn(shape)": "lecun_normal",
    "use agrad.nn.MultiheadAttention": "multi_head_attention_forward",
    "use the module with its sizes written out": (
        "LazyLinear LazyConv1d LazyConv2d LazyConv3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConvTranspose1d"
        " LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d"
    ),
    "use agrad.nn.GRU, agrad.nn.LSTM or agrad.nn.RNN": "RNNBase RNNCellBase",
    "use agrad.nn.functional.conv_transpose2d of each slice of the filters, and add up": "ConvTranspose3d conv_transpose3d",
    "use agrad.nn.MaxPool2d on x.flatten(1, 2), and agrad.nn.MaxPool1d along the depth": (
        "MaxPool3d max_pool3d AdaptiveMaxPool3d adaptive_max_pool3d"
    ),
    "use agrad.nn.AvgPool2d on x.flatten(1, 2), and agrad.nn.AvgPool1d along the depth": (
        "AvgPool3d avg_pool3d AdaptiveAvgPool3d adaptive_avg_pool3d"
    ),
    "use agrad.nn.BatchNorm2d on x.flatten(3)": "BatchNorm3d",
    "use agrad.nn.Dropout2d, which takes (n, channels, ...)": "Dropout3d dropout3d",
    "use agrad.nn.MaxPool2d or agrad.nn.MaxPool1d with the kernel's size written out": (
        "AdaptiveMaxPool1d AdaptiveMaxPool2d adaptive_max_pool1d adaptive_max_pool2d FractionalMaxPool2d FractionalMaxPool3d"
    ),
    "use agrad.nn.GroupNorm(channels, channels)": "InstanceNorm3d",
    "use agrad.nn.BatchNorm2d: a loss over all rows is one pass": "SyncBatchNorm",
    "use agrad.nn.functional.dropout on a mask: x * dropout(agrad.ones(n, c, 1, 1))": (
        "Dropout1d dropout1d AlphaDropout FeatureAlphaDropout alpha_dropout"
    ),
    "use agrad.nn.functional.pad": ("constant_pad_nd"),
    "use agrad.nn.Parameter in an agrad.nn.Module of your own: attributes are registered": "BufferDict",
    "use agrad.clip(x / 6 + 0.5, 0, 1)": "Hardsigmoid hardsigmoid hard_sigmoid",
    "use x * agrad.clip(x / 6 + 0.5, 0, 1)": "Hardswish hardswish hard_swish hard_silu",
    "use agrad.where(x > 0, x, weight * x)": "RReLU rrelu",
    "use agrad.where(x > 0, x, alpha * agrad.expm1(x / alpha))": "CELU celu",
    "use x / (1 + agrad.abs(x))": "Softsign softsign soft_sign",
    "use x - agrad.tanh(x)": "Tanhshrink tanhshrink",
    "use agrad.where(agrad.abs(x) > lambd, x, 0.0)": "Hardshrink hardshrink",
    "use agrad.sign(x) * agrad.maximum(agrad.abs(x) - lambd, 0.0)": "Softshrink softshrink",
    "use agrad.where(x > threshold, x, value)": "Threshold threshold",
    "use agrad.softmax(-x)": "Softmin softmin",
    "use agrad.nn.Softmax(dim=-3)": "Softmax2d",
    "use agrad.einsum('bi,oij,bj->bo', x, weight, y)": "Bilinear bilinear",
    "use agrad.reshape and agrad.permute_dims": "ChannelShuffle channel_shuffle",
    "x.max(1) and x.min(1) are the values: x.max(dim=1) gives PyTorch's pair": "Tensor.values Tensor.indices",
    "use agrad.nn.functional.avg_pool2d(agrad.abs(x) ** p, k) ** (1 / p), times a factor": (
        "LPPool1d LPPool2d LPPool3d lp_pool1d lp_pool2d lp_pool3d"
    ),
    "use agrad.scatter_add with indices of your own": "MaxUnpool1d MaxUnpool2d MaxUnpool3d max_unpool1d max_unpool2d max_unpool3d",
    "write it out: agrad.maximum(margin + ..., 0.0) and agrad.mean": (
        "HingeEmbeddingLoss hinge_embedding_loss MultiMarginLoss multi_margin_loss"
        " TripletMarginWithDistanceLoss triplet_margin_with_distance_loss"
        " MultiLabelMarginLoss multilabel_margin_loss"
    ),
    "use agrad.mean(agrad.special.softplus(-target * x))": "SoftMarginLoss soft_margin_loss",
    "use agrad.nn.BCEWithLogitsLoss": "MultiLabelSoftMarginLoss multilabel_soft_margin_loss",
    "use agrad.mean(agrad.exp(x) - target * x)": "PoissonNLLLoss poisson_nll_loss",
    "use agrad.mean((x - target) ** 2 / var + agrad.log(var)) / 2": "GaussianNLLLoss gaussian_nll_loss",
    "use agrad.nn.CrossEntropyLoss": "AdaptiveLogSoftmaxWithLoss LinearCrossEntropyLoss linear_cross_entropy",
    "use agrad.nn.GroupNorm or agrad.nn.BatchNorm2d": "LocalResponseNorm CrossMapLRN2d local_response_norm",
    "compute the weight in forward, of parameters of your own": (
        "parametrize register_parametrization remove_parametrizations remove_weight_norm remove_spectral_norm"
    ),
    "use agrad.linalg.qr in forward": "parametrizations.orthogonal",
    "use agrad.nn.functional.unfold and agrad.nn.functional.fold in forward": "Unfold Fold",
    "use agrad.nn.utils.rnn.pad_packed_sequence, and result[:length, i]": "unpack_sequence unpad_sequence",
    "use agrad.optim.Adam or agrad.optim.AdamW": "Adamax NAdam RAdam Adafactor Lion Muon Lamb lamb",
    "use agrad.optim.Adagrad or agrad.optim.RMSprop": "Rprop",
    "use agrad.optim.SGD, and average the parameters by hand": "ASGD",
    "use copy.deepcopy(model), and p.lerp_(q, 1 - decay) for its parameters under agrad.no_grad()": (
        "swa_utils AveragedModel SWALR get_ema_multi_avg_fn get_swa_multi_avg_fn"
    ),
    "use agrad.eye under agrad.no_grad()": "eye_ dirac_ nn.init.identity_",
    "optimisers are objects: agrad.optim.Adam(parameters), then optimizer.step()": "apply_updates optim.chain Lookahead",
    "use agrad.optim.lr_scheduler.ExponentialLR": "exponential_decay",
    "use agrad.optim.lr_scheduler.SequentialLR of LinearLR and CosineAnnealingLR": "warmup_cosine_decay_schedule",
    "agrad.nn.utils.clip_grad_norm_ gives it, with max_norm=agrad.inf": "get_total_norm",
    "use agrad.utils.data.ConcatDataset, or an agrad.utils.data.IterableDataset of your own": "ChainDataset StackDataset",
    "use agrad.utils.data.SubsetRandomSampler of each process's own indices": "DistributedSampler",
    "use the batches as they are: arrays need no pinning": "pin_memory is_pinned record_stream",
    "use agrad.save(model.state_dict(), path) and agrad.load": "export onnx saved_model",
    # NumPy names removed in NumPy 2
    "use -agrad.numpy.inf": "NINF",
    "use 0.0 and -0.0": "PZERO NZERO",
    "use agrad.numpy.asarray(x, dtype=agrad.float64)": "asfarray",
    "use x.item()": "asscalar",
    "use arrays of two axes": "mat asmatrix",
    "use Python's own": "numpy.object numpy.str numpy.unicode_ numpy.string_",
    # SciPy
    "agrad.scipy has SciPy's integrate, interpolate, linalg, optimize, signal, sparse.linalg, special and stats": "scipy.cluster scipy.spatial scipy.ndimage scipy.misc scipy.io scipy.constants",
    "use agrad.numpy.fft": "scipy.fft",
    "write its log density with agrad.special, or as one of agrad.scipy.stats": (
        "scipy.stats.gumbel_l scipy.stats.halfcauchy scipy.stats.invgauss scipy.stats.vonmises"
        " scipy.stats.multinomial scipy.stats.rayleigh scipy.stats.truncnorm scipy.stats.weibull_max"
    ),
    "use agrad.special.binom": "comb",
    "use agrad.special.gamma(n + 1)": "factorial",
    "use agrad.special.poch(n - k + 1, k)": "scipy.special.perm",
    "SciPy's takes arrays, and agrad.Function a derivative for it": "sici airy lambertw sph_harm owens_t",
    "SciPy designs filters of plain numbers; agrad.scipy.signal.lfilter, filtfilt and sosfilt take what it gives": (
        "scipy.signal.bessel scipy.signal.butter scipy.signal.cheby1 scipy.signal.cheby2 scipy.signal.ellip scipy.signal.firwin"
        " scipy.signal.iirfilter"
    ),
    "use agrad.scipy.signal.fftconvolve": "scipy.signal.oaconvolve",
    "use agrad.scipy.integrate.nquad": "scipy.integrate.dblquad scipy.integrate.tplquad",
    "use agrad.scipy.integrate.simpson": "scipy.integrate.fixed_quad scipy.integrate.romb",
    "solve the equations at the nodes, and differentiate by agrad.func.implicit": "scipy.integrate.solve_bvp",
    "use agrad.scipy.interpolate.CubicSpline or PchipInterpolator": (
        "scipy.interpolate.Akima1DInterpolator scipy.interpolate.BSpline scipy.interpolate.UnivariateSpline"
        " scipy.interpolate.splrep"
    ),
    "write it with agrad.special, or draw with SciPy": "scipy.stats.randint",
    "make it with SciPy or NumPy, of plain numbers": "scipy.signal.square",
    "use agrad.scipy.interpolate.RegularGridInterpolator": "scipy.interpolate.interp2d scipy.interpolate.interpn",
    "use agrad.scipy.optimize.least_squares": "scipy.optimize.leastsq",
    "use agrad.scipy.optimize.brentq, or root": (
        "scipy.optimize.bisect scipy.optimize.fsolve scipy.optimize.newton scipy.optimize.root_scalar"
    ),
    "use agrad.scipy.optimize.minimize": "scipy.optimize.fmin scipy.optimize.fmin_bfgs scipy.optimize.minimize_scalar",
    "use agrad.scipy.linalg.toeplitz": "scipy.linalg.circulant scipy.linalg.hankel",
    "use agrad.scipy.linalg.solve(agrad.scipy.linalg.toeplitz(c), b)": "scipy.linalg.solve_toeplitz",
    "use agrad.linalg.svd, and choose among the singular vectors": "null_space orth",
    "use agrad.linalg.eig, or agrad.linalg.eigh": "schur",
    "it is NumPy's own, for arrays: import numpy": (
        "numpy.testing numpy.ma numpy.polynomial numpy.typing numpy.emath numpy.ctypeslib numpy.lib numpy.rec numpy.char"
    ),
    # testing, and companions of PyTorch
    "use numpy.testing.assert_allclose of x.detach().numpy()": "assert_close assert_allclose assert_equal assert_array_equal",
    "use agrad.randn(shape), or agrad.tensor": "make_tensor",
    "run python -m agrad conformance NAME": "conformance",
    "use time.perf_counter, or agrad.profile": "benchmark bottleneck",
    "write what loss.item() gives": "tensorboard SummaryWriter",
    "declare the operation: agrad.elementwise, agrad.custom": "cpp_extension",
    "tensors have __dlpack__: agrad.from_dlpack reads, x.detach() gives": "dlpack to_dlpack",
    "use x.register_hook and its kin": "utils.hooks",
    "threads read ahead, not processes: use the indices that __getitem__ gets": "get_worker_info",
    "leave context_fn out": "noop_context_fn",
    "the second value of agrad.tree.flatten": "tree_structure tree.structure",
    "use functools.reduce on agrad.tree.flatten(x)[0]": "tree_reduce tree.reduce",
    "use all(agrad.tree.flatten(x)[0])": "tree_all tree.all",
    "use agrad.tree.flatten and zip": "map_with_path tree_map_with_path tree_transpose tree.transpose",
    "values never change: nothing has to be allowed or counted": "allow_mutation_on_saved_tensors increment_version",
    "write the backward with agrad's functions, or return values of x.detach()": "once_differentiable",
    "a pass runs in the thread that calls it": "set_multithreading_enabled",
    "print(x) inside vmap shows all examples": "debug_unwrap",
    # HIPS autograd's
    "a box is a tensor here: x.detach() is its value": "getval",
    "use defvjp, which HIPS autograd has put in its place": "defgrad",
    # Dask
    "use da.to_zarr(x.detach().to_dask_array(), path)": "to_zarr",
    "use agrad.asarray(frame.to_dask_array(lengths=True)) of dask.dataframe's": "from_parquet from_csv",
    "open it with xarray, and agrad_dask.from_xarray(data)": "from_netcdf open_dataset open_mfdataset",
    "give agrad.compute progress=True": "progress ProgressBar",
    "use distributed.Client: while one is active its workers compute": "Client",
    "use agrad_dask.map_blocks": "apply_ufunc reduction",
    "it is Dask's own: import dask": "config delayed",
    "it is xarray's own, and takes tensors once agrad.xarray is imported": (
        "xarray.DataArray xarray.Dataset xarray.apply_ufunc xarray.open_dataset xarray.open_zarr"
    ),
    "use da.to_zarr(x.detach().to_dask_array(), path), or da.store": "Tensor.store Tensor.to_zarr",
    "use x.detach().to_dask_array(), which has it": (
        "Tensor.blocks Tensor.chunksize Tensor.compute_chunk_sizes Tensor.npartitions Tensor.numblocks Tensor.partitions"
        " Tensor.to_delayed Tensor.to_dask_dataframe Tensor.to_hdf5 Tensor.to_svg Tensor.vindex Tensor.visualize"
    ),
    "use agrad_dask.from_zarr, from_npy or agrad.asarray(dask_array)": "from_array from_delayed from_map from_hdf5",
}

#: For missing attributes of `nn.Module`: only PyTorch's own, as other attributes are the user's.
MODULE = {
    "compile": "agrad.compile(module)",
    "type": "module.to(dtype)",
    "bfloat16": "module.half(), or module.float()",
    "to_empty": "module.to(device)",
    "share_memory": "module.state_dict(), which agrad.save writes: results share no memory",
    "get_extra_state": "module.register_buffer for what is saved",
    "set_extra_state": "module.register_buffer for what is saved",
    "xpu": "module.to(device)",
    "ipu": "module.to(device)",
    "mtia": "module.to(device)",
    "register_backward_hook": "module.register_full_backward_hook",
    "register_state_dict_pre_hook": "a state_dict() of your own, which calls super().state_dict()",
    "register_load_state_dict_pre_hook": "a load_state_dict() of your own, which calls super().load_state_dict()",
    "register_load_state_dict_post_hook": "a load_state_dict() of your own, which calls super().load_state_dict()",
    "register_module": "module.add_module",
}

#: What to write for another library's function that a namespace lacks, where nothing else is known about its name.
OTHERS = {
    "agrad.scipy.stats": "dir(agrad.scipy.stats) tells what is there; write the log density of others with agrad.special",
    **dict.fromkeys(
        (
            "agrad.scipy.integrate",
            "agrad.scipy.interpolate",
            "agrad.scipy.linalg",
            "agrad.scipy.optimize",
            "agrad.scipy.signal",
            "agrad.scipy.special",
        ),
        "others of SciPy's take arrays, and agrad.Function a derivative for them",
    ),
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: answer for answer, names in table.items() for name in names.split()}


HERE = _by_name(_HERE)
INSTEAD = _by_name(_INSTEAD)
