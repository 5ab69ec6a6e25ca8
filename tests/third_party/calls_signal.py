"""SciPy's signal processing and Fourier transforms."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace
from calls import LONG, LONG_P, OTHER, Z_LONG, A, B, P, Section, X, Z, sample
from scipy import fft, signal

call = Section("scipy.fft", fft)
EVEN = sample(8, seed=40)
FFT = [
    *call.each("fft ifft hfft irfft", Z_LONG),
    *call.each("rfft ihfft dct idct dst idst fftshift ifftshift", EVEN),
    *call.each("rfft2 rfftn dctn idctn dstn idstn ihfft2 ihfftn", A),
    *call.each("fft2 ifft2 fftn ifftn irfft2 irfftn hfft2 hfftn", A + 1j * B),
    call("fft(real, n, norm)", lambda x: fft.fft(x, n=10, norm="ortho"), EVEN),
    call("ifft(n)", lambda x: fft.ifft(x, n=5), Z_LONG),
    call("rfft(axis, n)", lambda x: fft.rfft(x, n=5, axis=0), A),
    call("irfft(n odd)", lambda x: fft.irfft(x, n=9), Z_LONG),
    call("fftn(s, axes)", lambda x: fft.fftn(x, s=(4, 4), axes=(0, 1), norm="forward"), A),
    call("fftshift(axes)", lambda x: fft.fftshift(x, axes=1), A),
    call("dct(type=3)", lambda x: fft.dct(x, type=3, norm="ortho"), EVEN),
    call("fht", lambda x: fft.fht(x, 0.1, 0.5), EVEN),
    call("fht(offset, bias)", lambda x: fft.fht(x, 0.1, 0.5, offset=0.2, bias=0.1), EVEN),
    call("ifht", lambda x: fft.ifht(x, 0.1, 0.5), EVEN),
]

call = Section("scipy.signal")
WAVE = sample(24, seed=41)
IMAGE, KERNEL = sample(5, 5, seed=42), sample(3, 3, seed=43)
#: The splines need as much to find their boundary conditions.
TALL = sample(20, 20, seed=44)
NUMERATOR, DENOMINATOR = np.asarray([0.4, 0.3, -0.2]), np.asarray([1.3, -0.4, 0.2])
#: Second-order sections without the column that must be 1.
SECTIONS = np.asarray([[0.4, 0.3, 0.2, -0.4, 0.2], [0.5, -0.2, 0.1, 0.3, 0.1]])
ZEROS, POLES = np.asarray([0.3 + 0.2j, 0.3 - 0.2j]), np.asarray([-0.5 + 0.4j, -0.5 - 0.4j, -0.8 + 0.3j])
GAIN = np.asarray(0.7)


def sos(sections):
    """Put the column of ones into second-order sections."""
    xp = array_namespace(sections)
    return xp.concat([sections[:, :3], xp.ones_like(sections[:, :1]), sections[:, 3:]], axis=1)


SIGNAL = [
    call("convolve", signal.convolve, LONG, X),
    call("convolve(same, fft)", lambda x, y: signal.convolve(x, y, mode="same", method="fft"), LONG, X),
    call("convolve(direct)", lambda x, y: signal.convolve(x, y, mode="valid", method="direct"), LONG, X),
    call("correlate", signal.correlate, LONG, X),
    call("correlate(fft)", lambda x, y: signal.correlate(x, y, method="fft"), LONG, X),
    call("fftconvolve", signal.fftconvolve, LONG, X),
    call("fftconvolve(2-d, valid)", lambda x, y: signal.fftconvolve(x, y, mode="valid"), IMAGE, KERNEL),
    call("fftconvolve(complex)", signal.fftconvolve, Z_LONG, Z),
    call("oaconvolve", signal.oaconvolve, WAVE, X),
    call("oaconvolve(same)", lambda x, y: signal.oaconvolve(x, y, mode="same"), WAVE, X),
    call("convolve2d", signal.convolve2d, IMAGE, KERNEL),
    call("correlate2d", signal.correlate2d, IMAGE, KERNEL),
    call(
        "choose_conv_method", lambda x, y: 1.0 * (signal.choose_conv_method(x, y) == "direct"), LONG, X, constant=True
    ),
    call("deconvolve", signal.deconvolve, LONG, np.asarray([1.5, 0.3, -0.2])),
    call("hilbert", signal.hilbert, LONG),
    call("hilbert(N)", lambda x: signal.hilbert(x, N=16), LONG),
    call("hilbert2", signal.hilbert2, IMAGE),
    call("envelope", signal.envelope, WAVE),
    call("detrend", signal.detrend, LONG),
    call("detrend(constant)", lambda x: signal.detrend(x, type="constant"), LONG),
    call("detrend(bp)", lambda x, b: signal.detrend(x, bp=b), LONG, np.asarray([5])),
    call("resample", lambda x: signal.resample(x, 8), LONG),
    call("resample(up, window)", lambda x: signal.resample(x, 18, window="hamming"), LONG),
    call("resample_poly", lambda x: signal.resample_poly(x, 3, 2), LONG),
    call("upfirdn", lambda h, x: signal.upfirdn(h, x, 2, 1), P, LONG),
    call("lfilter", signal.lfilter, NUMERATOR, DENOMINATOR, LONG),
    call("lfilter(FIR)", lambda b, x: signal.lfilter(b, 1.0, x), NUMERATOR, LONG),
    call("lfilter_zi", signal.lfilter_zi, NUMERATOR, DENOMINATOR),
    call("lfiltic", lambda b, a, y: signal.lfiltic(b, a, y), NUMERATOR, DENOMINATOR, np.asarray([0.4, -0.3])),
    call("filtfilt", signal.filtfilt, NUMERATOR, DENOMINATOR, WAVE),
    call("sosfilt", lambda s, x: signal.sosfilt(sos(s), x), SECTIONS, LONG),
    call("sosfilt_zi", lambda s: signal.sosfilt_zi(sos(s)), SECTIONS),
    call("sosfiltfilt", lambda s, x: signal.sosfiltfilt(sos(s), x), SECTIONS, WAVE),
    call("savgol_filter", lambda x: signal.savgol_filter(x, 5, 2), LONG),
    call("savgol_filter(deriv)", lambda x: signal.savgol_filter(x, 5, 2, deriv=1, mode="nearest"), LONG),
    call("medfilt", lambda x: signal.medfilt(x, 3), LONG),
    call("medfilt2d", lambda x: signal.medfilt2d(x, 3), IMAGE),
    call("order_filter", lambda x, d: signal.order_filter(x, d, 0), LONG, np.ones(3, int)),
    call("wiener", lambda x: signal.wiener(x, 3), LONG),
    call("cspline1d", signal.cspline1d, LONG),
    call("qspline1d", signal.qspline1d, LONG),
    call("cspline1d_eval", lambda c, x: signal.cspline1d_eval(c, x), LONG, P * 2),
    call("qspline1d_eval", lambda c, x: signal.qspline1d_eval(c, x), LONG, P * 2),
    call("cspline2d", signal.cspline2d, TALL),
    call("gauss_spline", lambda x: signal.gauss_spline(x, 3), X),
    call("vectorstrength", lambda e: signal.vectorstrength(e, 2.0), P),
    # filters as polynomials, zeros and poles
    call("freqz", lambda b, a: signal.freqz(b, a, worN=6)[1], NUMERATOR, DENOMINATOR),
    call("freqz(worN)", lambda b, a, w: signal.freqz(b, a, worN=w)[1], NUMERATOR, DENOMINATOR, P),
    call("freqs", lambda b, a, w: signal.freqs(b, a, worN=w)[1], NUMERATOR, DENOMINATOR, P),
    call("freqz_zpk", lambda z, p, k: signal.freqz_zpk(z, p, k, worN=6)[1], ZEROS, POLES, GAIN),
    call("freqs_zpk", lambda z, p, k, w: signal.freqs_zpk(z, p, k, worN=w)[1], ZEROS, POLES, GAIN, P),
    call("freqz_sos", lambda s: signal.freqz_sos(sos(s), worN=6)[1], SECTIONS),
    call("group_delay", lambda b, a: signal.group_delay((b, a), w=6)[1], NUMERATOR, DENOMINATOR),
    call("normalize", signal.normalize, NUMERATOR, DENOMINATOR),
    call(
        "tf2zpk",
        lambda b, a: [sum(r**2) for r in signal.tf2zpk(b, a)[:2]],
        NUMERATOR,
        DENOMINATOR,
        remark="roots in any order",
    ),
    # NumPy drops the imaginary part where zeros come in pairs, so that a step to one side brings it.
    call("zpk2tf", lambda z, p, k: [np.real(c) for c in signal.zpk2tf(z, p, k)], ZEROS, POLES, GAIN),
    call("zpk2sos", lambda k: signal.zpk2sos(ZEROS, POLES[:2], k), GAIN),
    call("sos2tf", lambda s: signal.sos2tf(sos(s)), SECTIONS),
    call("sos2zpk", lambda s: [sum(r**2) for r in signal.sos2zpk(sos(s))[:2]], SECTIONS, remark="roots in any order"),
    call("tf2sos", signal.tf2sos, NUMERATOR, DENOMINATOR),
    call("bilinear", lambda b, a: signal.bilinear(b, a, fs=2.0), NUMERATOR, DENOMINATOR),
    call("bilinear_zpk", lambda z, p, k: signal.bilinear_zpk(z, p, k, fs=2.0), ZEROS, POLES, GAIN),
    call("lp2lp", lambda b, a: signal.lp2lp(b, a, 1.7), NUMERATOR, DENOMINATOR),
    call("lp2hp", lambda b, a: signal.lp2hp(b, a, 1.7), NUMERATOR, DENOMINATOR),
    call("lp2bp", lambda b, a: signal.lp2bp(b, a, 1.7, 0.6), NUMERATOR, DENOMINATOR),
    call("lp2bs", lambda b, a: signal.lp2bs(b, a, 1.7, 0.6), NUMERATOR, DENOMINATOR),
    call("lp2lp_zpk", lambda z, p, k: signal.lp2lp_zpk(z, p, k, 1.7), ZEROS, POLES, GAIN),
    call("lp2hp_zpk", lambda z, p, k: signal.lp2hp_zpk(z, p, k, 1.7), ZEROS, POLES, GAIN),
    call("lp2bp_zpk", lambda z, p, k: signal.lp2bp_zpk(z, p, k, 1.7, 0.6), ZEROS, POLES, GAIN),
    call("lp2bs_zpk", lambda z, p, k: signal.lp2bs_zpk(z, p, k, 1.7, 0.6), ZEROS, POLES, GAIN),
    call("minimum_phase", lambda h: signal.minimum_phase(h, n_fft=64), np.asarray([0.2, 0.5, 0.9, 0.5, 0.2])),
    call("firwin2", lambda f, g: signal.firwin2(9, f, g, fs=4), np.asarray([0, 1, 2]), np.asarray([1.0, 0.7, 0.2])),
    call(
        "abcd_normalize",
        lambda a, b, c, d: list(signal.abcd_normalize(a, b, c, d)),
        KERNEL,
        KERNEL[:, :1],
        KERNEL[:1],
        KERNEL[:1, :1],
    ),
    call("periodogram", lambda x: signal.periodogram(x)[1], LONG),
    call("welch", lambda x: signal.welch(x, nperseg=8)[1], WAVE),
    call("coherence", lambda x, y: signal.coherence(x, y, nperseg=6)[1], LONG, OTHER),
    call("stft", lambda x: signal.stft(x, nperseg=8)[2], WAVE),
    call("decimate", lambda x: signal.decimate(x, 2, ftype="fir", n=4), WAVE),
    call("lombscargle", signal.lombscargle, LONG_P, LONG, P),
    call("find_peaks", lambda x: signal.find_peaks(x)[0], LONG, constant=True),
]

CALLS = FFT + SIGNAL
