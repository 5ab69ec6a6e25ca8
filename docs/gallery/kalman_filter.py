"""
A Kalman filter
===============

The flow of the Nile at Aswan, year by year: a level that wanders, measured with noise. How much it wanders and how large the noise
is are found by maximum likelihood, through the recursions of the filter, a hundred steps of a Python loop.
"""

import matplotlib.pyplot as plt
import numpy as np

import agrad as ag

years = np.arange(1871, 1971)
# fmt: off
flow = np.array([  # 10^8 m^3 a year; Cobb, Biometrika 65 (1978)
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], dtype=float)
# fmt: on

# %%
# The filter predicts each year from those before it. What it did not foresee, and how uncertain it was, gives the likelihood
# (without the first year, which starts the filter).


def filtered(log_variances):
    noise, wander = ag.exp(log_variances)
    level, uncertainty = ag.asarray(flow[0]), noise
    loss, levels = 0.0, [level]
    for seen in flow[1:]:
        uncertainty = uncertainty + wander
        expected = uncertainty + noise
        gain, surprise = uncertainty / expected, seen - level
        loss = loss + 0.5 * (ag.log(2 * np.pi * expected) + surprise**2 / expected)
        level, uncertainty = level + gain * surprise, uncertainty * (1 - gain)
        levels.append(level)
    return loss, levels


def loss(log_variances):
    return filtered(log_variances)[0]


# %%
# The loop is unrolled by recording it; nothing has to be said about it.

start = np.log([1e4, 1e4])
found = ag.optim.minimize(loss, start, method="BFGS", options={"gtol": 1e-6})
noise, wander = np.exp(found.x)
print(f"noise {noise:.0f}, wandering {wander:.0f}, log likelihood {-found.fun:.2f}")

# %%
# The second derivatives say how well the data determine the two.

errors = np.sqrt(np.diag(np.linalg.inv(ag.hessian(loss)(found.x))))
print(f"known to factors of {np.exp(errors[0]):.2f} and {np.exp(errors[1]):.2f}")

_, levels = filtered(found.x)
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(years, flow, "k.", label="flow")
axes.plot(years, ag.stack(levels).numpy(), label="filtered level")
axes.axvline(1899, color="grey", linestyle=":", label="the dam at Aswan is begun")
axes.legend()

# %%
# Durbin and Koopman (*Time Series Analysis by State Space Methods*, section 2.10) give the maximum.

np.testing.assert_allclose([noise, wander], [15099, 1469.1], rtol=1e-3)
