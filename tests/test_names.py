"""What namespaces show, and what they say of names that they do not have."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import textwrap

import pytest

import agrad as ag
from agrad.core import names
from agrad.torch_functions import NAMES
from agrad.view import elsewhere
from agrad.view.tracebacks import shortened

NAMESPACES = [
    *elsewhere.NAMESPACES,
    "agrad.autograd.function",
    "agrad.autograd.functional",
    "agrad.numpy.fft",
    "agrad.scipy",
]
NAMESPACES += ["agrad.scipy.special", "agrad.testing", "agrad_dask", "agrad_numpy"]
NAMESPACES += ["agrad.compat.autograd.extend", "agrad.compat.autograd.misc", "agrad.einops", "agrad.xarray"]
MODULES = {*NAMESPACES}

#: Public names of PyTorch's, by the namespace in which a user would write them.
TORCH = {
    "agrad": """
        BoolTensor ByteTensor FloatTensor Generator IntTensor LongTensor Size Tensor abs absolute acos acosh adaptive_avg_pool1d
        add addbmm addcdiv addcmul addmm addmv addr adjoint allclose alpha_dropout amax amin aminmax angle any arange arccos
        arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_strided as_tensor asarray atan2
        atleast_1d autocast autograd avg_pool1d baddbmm batch_norm bernoulli bfloat16 bilinear binary_cross_entropy_with_logits
        bincount binomial bitwise_not block_diag bmm bool broadcast_tensors broadcast_to bucketize cartesian_prod cat cdist cdouble
        ceil celu cfloat chain_matmul channel_shuffle cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clip clone
        column_stack combinations compile complex complex128 complex64 concat concatenate conj conv1d conv2d conv3d
        conv_transpose1d conv_transpose2d corrcoef cos cosh cosine_similarity count_nonzero cov cross ctc_loss cuda cummax cummin
        cumprod cumsum cumulative_trapezoid deg2rad det detach device diag diag_embed diagonal diff digamma dist distributed
        distributions div divide dot double dropout dsplit dstack einsum embedding empty empty_like enable_grad eq equal erf erfc
        erfinv exp exp2 expm1 export eye fft finfo fix flatten flip fliplr flipud float float16 float32 float64 float_power floor
        floor_divide fmax fmin fmod frac frexp from_numpy full full_like func gather gcd ge geqrf ger get_default_dtype
        get_num_threads gradient group_norm gt half hamming_window hann_window hardshrink heaviside histc histogram hsplit hstack
        hypot i0 igamma igammac imag index_add index_copy index_fill index_put index_select inner instance_norm int int16 int32
        int64 int8 inverse is_complex is_floating_point is_grad_enabled is_nonzero is_tensor isclose isfinite isin isinf isnan
        isneginf isposinf isreal istft jit kaiser_window kl_div kron kthvalue layer_norm lcm ldexp le lerp lgamma linalg linspace
        load lobpcg log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or
        logical_xor logit logspace logsumexp long lstsq lt lu_solve manual_seed masked_fill masked_scatter masked_select matmul
        matrix_exp matrix_power matrix_rank max max_pool1d max_pool2d maximum mean median meshgrid min minimum mm mode moveaxis
        movedim msort mul multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative
        nextafter nn no_grad nonzero norm normal numel ones ones_like optim orgqr outer pca_lowrank pdist permute pinverse
        pixel_shuffle polar polygamma positive pow prelu prod profiler promote_types qr quantile rad2deg rand rand_like randint
        randint_like randn randn_like random randperm range ravel real reciprocal relu remainder repeat_interleave reshape
        result_type roll rot90 round rsqrt save scatter scatter_add scatter_reduce searchsorted seed select selu
        set_default_device set_default_dtype set_default_tensor_type set_grad_enabled set_num_threads set_printoptions sgn short
        sigmoid sign signal signbit sin sinc sinh slogdet softmax sort sparse sparse_coo_tensor special split sqrt square squeeze
        stack std std_mean stft sub subtract sum svd svd_lowrank swapaxes swapdims symeig t take take_along_dim tan tanh tensor
        tensor_split tensordot tile topk trace transpose trapezoid trapz triangular_solve tril tril_indices triu triu_indices
        true_divide trunc uint8 unbind unflatten unique unique_consecutive unravel_index unsqueeze utils vander var var_mean vdot
        view_as_complex view_as_real vmap vsplit vstack where xlogy zeros zeros_like
    """,
    "agrad.nn": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
        AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer
        CELU CTCLoss ChannelShuffle CircularPad2d ConstantPad1d ConstantPad2d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
        CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss DataParallel Dropout Dropout1d Dropout2d ELU Embedding EmbeddingBag
        Flatten Fold GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss
        HuberLoss Identity InstanceNorm1d InstanceNorm2d KLDivLoss L1Loss LPPool2d LSTM LSTMCell LayerNorm LazyConv2d LazyLinear
        LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d
        MaxUnpool2d Mish Module ModuleDict ModuleList MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss
        MultiheadAttention NLLLoss PReLU PairwiseDistance Parameter ParameterDict ParameterList PixelShuffle PoissonNLLLoss
        RMSNorm RNN RNNCell RReLU ReLU ReLU6 ReflectionPad2d ReplicationPad2d SELU Sequential SiLU Sigmoid SmoothL1Loss
        SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer
        TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss Unflatten Unfold
        Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad2d functional init utils
    """,
    "agrad.nn.functional": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d affine_grid alpha_dropout avg_pool1d avg_pool2d batch_norm
        bilinear binary_cross_entropy binary_cross_entropy_with_logits celu conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout2d elu embedding embedding_bag fold
        gaussian_nll_loss gelu glu grid_sample group_norm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh
        hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear local_response_norm
        log_softmax logsigmoid lp_pool2d margin_ranking_loss max_pool1d max_pool2d max_unpool2d mish mse_loss multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle
        poisson_nll_loss prelu relu relu6 rms_norm rrelu scaled_dot_product_attention selu sigmoid silu smooth_l1_loss
        soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold triplet_margin_loss unfold upsample
    """,
    "agrad.optim": "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam RAdam RMSprop Rprop SGD SparseAdam",
    "agrad.optim.lr_scheduler": """
        ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler LambdaLR
        LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR
    """,
    "agrad.func": """
        functional_call functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize stack_module_state vjp vmap
    """,
    "agrad.linalg": """
        cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor ldl_solve
        lstsq lu lu_factor lu_solve matmul matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv polar qr slogdet
        solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
    """,
    "agrad.fft": """
        fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
        rfft2 rfftfreq rfftn
    """,
    "agrad.special": """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc
        gammaln hermite_polynomial_h i0 i0e i1 i1e legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp
        modified_bessel_i0 modified_bessel_k1 multigammaln ndtr ndtri polygamma psi round scaled_modified_bessel_k0 sinc softmax
        spherical_bessel_j0 xlog1py xlogy zeta
    """,
    "agrad.nn.init": """
        calculate_gain constant constant_ dirac_ eye_ kaiming_normal kaiming_normal_ kaiming_uniform_ normal normal_ ones_
        orthogonal orthogonal_ sparse_ trunc_normal_ uniform uniform_ xavier_normal_ xavier_uniform_ zeros_
    """,
    "agrad.nn.utils": """
        clip_grad_norm clip_grad_norm_ clip_grad_value_ parameters_to_vector parametrize spectral_norm vector_to_parameters weight_norm
    """,
    "agrad.Tensor": """
        abs absolute add_ addmm addmv amax apply_ arccos argwhere as_strided backward baddbmm bernoulli_ bfloat16 bitwise_and_ bmm
        char cholesky clamp clone coalesce cosh cuda cummax data data_ptr det dist div double exponential_ fill_ fill_diagonal_
        fliplr frac ger get_device half histc index_put_ inverse is_cuda is_nonzero is_same_size is_shared is_sparse item kthvalue
        log_normal_ logdet logical_and_ masked_scatter matrix_exp mode msort multinomial mvlgamma narrow nanmedian negative_ new
        normal_ numpy permute pin_memory pinverse qr random_ resize_ scatter_reduce share_memory_ slogdet split_with_sizes
        squeeze_ stft storage stride sum_to_size svd t_ tensor_split to_sparse transpose_ tril_ unfold uniform_ unique
        untyped_storage vdot
    """,
}

JAX = """
    block_until_ready custom_jvp custom_vjp device_put devices disable_jit eval_shape hessian jacfwd jacobian jacrev jit jvp lax
    linearize make_jaxpr nn numpy pmap random remat stop_gradient scan tree tree_map tree_util value_and_grad vjp vmap cond
    fori_loop while_loop switch ravel_pytree relu6 swish glu log_sigmoid hard_tanh PRNGKey dot_general top_k
"""

NUMPY = """
    absolute all amax amin append apply_along_axis arccos arctan2 argsort around array array_equal array_split atleast_2d average
    bincount bool_ clip column_stack concatenate convolve copy corrcoef cov cross cumprod cumsum deg2rad diag diff digitize dot
    dstack ediff1d einsum exp2 expand_dims eye fabs fliplr fmod full geomspace gradient heaviside histogram hstack hypot
    identity inner insert interp intersect1d invert isclose ix_ kron lexsort linalg linspace logspace lstsq matmul median meshgrid
    mod nan_to_num nanmax ndarray newaxis norm nonzero ones outer pad percentile piecewise polyfit polyval power prod ptp
    quantile radians random ravel repeat reshape rint roll rot90 searchsorted sinc sort split squeeze std swapaxes take tensordot
    tile trace transpose trapezoid tri tril true_divide unique unwrap vander var vdot vectorize vstack where
"""


def shown(namespace):
    return dir(ag.Tensor) if namespace == "agrad.Tensor" else dir(importlib.import_module(namespace))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_namespace_shows_what_is_public_and_nothing_else(namespace):
    module = importlib.import_module(namespace)
    hooks = (
        {"agrad_backends", "agrad_backend_of", "agrad_executors", "agrad_harness"}
        if "_" in namespace.split(".")[0]
        else set()
    )
    lazy = NAMES if module is ag else set()  # PyTorch's, which a star leaves out
    assert set(dir(module)) - hooks == {*module.__all__, *lazy}
    assert len(dir(module)) == len(set(dir(module)))
    for name in dir(module):
        assert getattr(module, name, module) is not module, name


@pytest.mark.parametrize(
    "path",
    [
        *("compat.autograd.numpy", "einops", "numpy.linalg", "scipy.linalg", "xarray"),
        *("nn.backward_hooks", "optim.sgd", "testing", "torch_functions", "utils.data"),
    ],
)
def test_a_module_that_waits_is_there_at_the_first_access(path):
    if path in ("einops", "xarray"):
        pytest.importorskip(path)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import agrad as ag; first = ag.{path}; assert ag.{path} is first; print(first.__name__)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"agrad.{path}\n", done.stderr


def test_completion_shows_all_before_anything_was_used():
    program = """
        import importlib, rlcompleter, sys
        import agrad as ag, agrad_dask

        assert {"from_zarr", "value_and_grad"} <= set(dir(agrad_dask))
        assert "dask" not in sys.modules
        complete = rlcompleter.Completer(globals())

        def completed(text):
            found = []
            while (match := complete.complete(text, len(found))) is not None:
                found.append(match.rstrip("()"))
            return found

        assert completed("ag.nn.Lin") == ["ag.nn.Linear"], completed("ag.nn.Lin")
        assert completed("ag.optim.SG") == ["ag.optim.SGD"]
        expected = ["ag.utils.checkpoint", "ag.utils.checkpoint_sequence", "ag.utils.data"]
        assert completed("ag.utils.") == expected
        assert completed("ag.tree.") == [f"ag.tree.{name}" for name in sorted(ag.tree.__all__)]
        assert completed("ag.Fun") == ["ag.Function"]
        assert completed("ag.unsq") == ["ag.unsqueeze"]
        print("all")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "all\n", done.stderr


@pytest.mark.parametrize("namespace", TORCH)
def test_each_of_pytorchs_names_is_there_or_explained(namespace):
    there = shown(namespace)
    assert [name for name in TORCH[namespace].split() if name not in there and not names.hint(namespace, name)] == []


@pytest.mark.parametrize("theirs", [JAX, NUMPY])
def test_each_of_jax_and_numpys_names_is_there_or_explained(theirs):
    assert [name for name in theirs.split() if name not in dir(ag) and not names.hint("agrad", name)] == []


@pytest.mark.parametrize(
    ("namespace", "name", "message"),
    [
        ("agrad", "FloatType", "; here it is agrad.float32"),
        ("agrad", "Linear", "; here it is agrad.nn.Linear"),
        ("agrad", "cholesky", "; here it is agrad.linalg.cholesky"),
        ("agrad", "jit", "; here it is agrad.compile"),
        ("agrad", "logpdf", ""),
        ("agrad", "unsqueze", "; did you mean 'unsqueeze'?"),
        ("agrad", "stop_gradent", "; if 'stop_gradient' is meant; not there: use x.detach()"),
        ("agrad.nn", "Lineer", "; did you mean 'Linear'?"),
        ("agrad.nn.functional", "sin", "; here it is agrad.sin"),
        ("agrad.optim", "StepLR", "; here it is agrad.optim.lr_scheduler.StepLR"),
        ("agrad.optim", "Lion", "; not there: use agrad.optim.Adam or agrad.optim.AdamW"),
        ("agrad.func", "jacrew", "; did you mean 'jacrev'?"),
        ("agrad.linalg", "expm", "; here it is agrad.scipy.linalg.expm"),
        ("agrad.fft", "hfft2", "; not there: use agrad.fft.fftn and agrad.conj"),
        ("agrad.special", "lgamma", "; here it is agrad.lgamma"),
        ("agrad.special", "bessel_j0", "; here it is agrad.special.j0"),
        ("agrad.random", "normal", "; here it is agrad.random.randn"),
        ("agrad.tree", "leaves", "; here it is agrad.tree.flatten"),
        ("agrad.utils", "DataLoader", "; here it is agrad.utils.data.DataLoader"),
        ("agrad.numpy", "unsqueeze", "; here it is agrad.unsqueeze"),
        ("agrad.numpy", "trapz", "; here it is agrad.numpy.trapezoid"),
        ("agrad.numpy", "ma", "; not there: it is NumPy's own, for arrays: import numpy"),
        ("agrad.numpy", "PolynomialL", ""),
        ("agrad", "ode", ""),
        ("agrad", "test_util", "; here it is agrad.compat.autograd.test_util"),
        (
            "agrad",
            "make_vjp",
            "; not there: use value, pull = agrad.func.vjp(f, x), or HIPS autograd's: agrad.compat.autograd.make_vjp",
        ),
        ("agrad.scipy.stats", "invgamm", "; did you mean 'invgamma'?"),
        (
            "agrad.scipy.stats",
            "zipf",
            "; dir(agrad.scipy.stats) tells what is there; write the log density of others with agrad.special",
        ),
        (
            "agrad.scipy.stats",
            "rayleigh",
            "; not there: write its log density with agrad.special, or as one of agrad.scipy.stats",
        ),
        ("agrad.scipy.optimize", "leastsq", "; not there: use agrad.scipy.optimize.least_squares"),
        ("agrad.scipy.integrate", "dblquad", "; not there: use agrad.scipy.integrate.nquad"),
        ("agrad.scipy.signal", "zpk2sos", "; others of SciPy's take arrays, and agrad.Function a derivative for them"),
        (
            "agrad.scipy.linalg",
            "polar",
            "; not there: use u, _, vh = agrad.linalg.svd(x, full_matrices=False): u @ vh is the unitary factor",
        ),
        (
            "agrad.scipy.linalg",
            "lu_factor",
            "; not there: use agrad.linalg.solve, or agrad.scipy.linalg.lu, which gives p, l and u apart",
        ),
        ("agrad.numpy.linalg", "expm", "; here it is agrad.scipy.linalg.expm"),
        ("agrad.scipy", "intergrate", "; did you mean 'integrate'?"),
        ("agrad.scipy.stats", "gama", "; did you mean 'gamma'?"),
        ("agrad_dask", "from_zar", "; did you mean 'from_zarr'?"),
        ("agrad_dask", "from_array", "; not there: use agrad_dask.from_zarr, from_npy or agrad.asarray(dask_array)"),
        ("agrad_numpy", "NumPyBackend", "; did you mean 'NumpyBackend'?"),
    ],
)
def test_a_missing_name_says_what_it_is_called_here(namespace, name, message):
    module = importlib.import_module(namespace)
    with pytest.raises(AttributeError) as raised:
        getattr(module, name)
    assert str(raised.value) == f"module '{namespace}' has no attribute '{name}'{message}"
    assert raised.value.name == name
    assert not hasattr(module, name)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("from agrad import holomorphic_grad", "use agrad.grad(f, holomorphic=True), or HIPS autograd's"),
        ("import agrad.misc", "here it is agrad.compat.autograd.misc."),
        ("from agrad.extend import primitive", "here it is agrad.compat.autograd.extend."),
        ("from agrad.scipy.linalg import matrix_rank", "here it is agrad.linalg.matrix_rank."),
        ("from agrad.autograd import Variable", "a Variable is the tensor itself: use x"),
        ("from agrad.distributions.normal import Normal", "here it is agrad.distributions.Normal."),
        (
            "from agrad.distributions import MixtureSameFamily",
            "use agrad.logsumexp(mixture.logits + components.log_prob",
        ),
        ("from agrad.utils.data.sampler import BatchSampler", "here it is agrad.utils.data."),
    ],
)
def test_an_import_that_fails_says_where_it_is(line, note):
    with pytest.raises(ImportError) as raised:
        exec(line, {})
    with shortened(raised.value):
        assert any(note in said for said in raised.value.__notes__)


def test_imports_from_other_packages_are_left_alone():
    with pytest.raises(ImportError) as raised:
        exec("from json import makes_vjp", {})
    with shortened(raised.value):
        assert not hasattr(raised.value, "__notes__")


def test_what_the_table_says_is_there():
    said = set(elsewhere.HERE.values())
    for sentence in elsewhere.INSTEAD.values():
        said |= set(re.findall(r"agrad(?:_dask)?(?:\.\w+)+", sentence))
    for path in said:
        if path in MODULES:
            continue
        home, _, name = path.rpartition(".")
        if name not in dir(getattr(ag, home[6:], None) or importlib.import_module(home)):
            importlib.import_module(path)


def test_no_name_stands_twice_in_the_table():
    listed = [
        name for table in (elsewhere._HERE, elsewhere._INSTEAD) for line in table.values() for name in line.split()
    ]
    assert sorted(listed) == sorted(set(listed))
    assert not NAMES & set(listed)


@pytest.mark.parametrize("namespace", ["agrad.nn", "agrad.optim", "agrad.func", "agrad.linalg", "agrad.nn.functional"])
def test_two_letters_exchanged_are_seen(namespace):
    for name in shown(namespace):
        if len(name) > 5:
            wrong = name[:2] + name[3] + name[2] + name[4:]
            if wrong != name:
                assert "did you mean" in names.hint(namespace, wrong), wrong


@pytest.mark.parametrize(
    ("namespace", "wrong", "meant"),
    [
        ("agrad.nn", "RELU", "ReLU"),
        ("agrad.nn", "Batchnorm2D", "BatchNorm2d"),
        ("agrad.nn.functional", "Relu", "relu"),
        ("agrad.optim", "adamw", "AdamW"),
        ("agrad.optim", "Adma", "Adam"),
        ("agrad.compat.autograd", "gard", "grad"),
        ("agrad.compat.autograd", "valueAndGrad", "value_and_grad"),
        ("agrad", "zerosLike", "zeros_like"),
    ],
)
def test_capitals_and_underscores_count_for_little(namespace, wrong, meant):
    with pytest.raises(AttributeError, match=f"did you mean '{meant}'"):
        getattr(importlib.import_module(namespace), wrong)


def test_hips_autograds_modules_are_there_once_their_package_is_imported():
    program = "import agrad.compat.autograd as a; assert {'misc', 'numpy'} <= set(dir(a)); print(a.numpy.sin(a.misc.flatten([0.0])[0]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[0.]\n", done.stderr


@pytest.mark.parametrize("name", ["gamma", "beta", "poisson", "dirichlet"])
def test_samples_are_looked_for_among_samples(name):
    assert names.hint("agrad.random", name) == f"; here it is agrad.numpy.random.{name}"
