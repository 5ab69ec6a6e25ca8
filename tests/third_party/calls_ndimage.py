"""SciPy's image processing, all of it compiled for NumPy arrays: a few of its 74 functions stand for the rest."""

from __future__ import annotations

import numpy as np
from calls import A, Section, sample
from scipy import ndimage

call = Section("scipy.ndimage")
IMAGE = sample(5, 5, seed=60)
PLACES = np.asarray([[0.4, 1.2], [1.6, 2.3]])

CALLS = [
    call("gaussian_filter", lambda x: ndimage.gaussian_filter(x, 0.8), IMAGE),
    call("convolve", ndimage.convolve, IMAGE, IMAGE[:3, :3]),
    call("uniform_filter", lambda x: ndimage.uniform_filter(x, 3), IMAGE),
    call("sobel", ndimage.sobel, IMAGE),
    call("median_filter", lambda x: ndimage.median_filter(x, 3), IMAGE),
    call("zoom", lambda x: ndimage.zoom(x, 1.5), A),
    call("shift", lambda x: ndimage.shift(x, 0.4), IMAGE),
    call("map_coordinates", lambda x, c: ndimage.map_coordinates(x, c, order=1), IMAGE, PLACES),
    call("label", lambda x: ndimage.label(x > 0)[0], IMAGE, constant=True),
    call("fourier_gaussian", lambda x: ndimage.fourier_gaussian(x, 0.7), IMAGE),
    call("mean", ndimage.mean, IMAGE),
    call("center_of_mass", ndimage.center_of_mass, np.abs(IMAGE)),
]
