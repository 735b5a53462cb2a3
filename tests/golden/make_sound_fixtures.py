#!/usr/bin/python3
"""Make sound.safetensors: log-mel spectrograms by torch.stft and a mel filter bank in numpy, for
tests that need no PyTorch.

    /usr/bin/python3 tests/golden/make_sound_fixtures.py

Needs Debian's python3-torch, python3-numpy.

log_mel.N.*   wave [samples] and mel [frames x bands] in double;
              settings [5]: rate, window, hop, bands, floor
"""
import numpy as np
import torch

from make_fixtures import Ops, save


def filter_bank(rate, size, bands):
    """Triangles of height 1 between corners that are evenly spaced on HTK's mel scale: [size / 2 +
    1, bands].
    """
    mel = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), bands + 2)
    corners = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.arange(size // 2 + 1)[:, None] * (rate / size)
    low, middle, high = corners[:-2], corners[1:-1], corners[2:]
    return torch.from_numpy(
        np.maximum(0, np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)))
    )


def wave_of(ops, rate, samples):
    """Tones that rise and fade over noise, with silence at the end."""
    time = torch.arange(samples, dtype=torch.float64) / rate
    wave = sum(
        0.3 * torch.sin(2 * np.pi * (hertz + hertz * time) * time)
        for hertz in (220.0, 700.0, rate / 5)
    )
    wave = wave * torch.exp(-20 * time) + 1e-3 * ops.draw(samples).to(torch.float64)
    wave[samples * 3 // 4 :] = 0
    return wave


def case(ops, rate, samples, window, hop, bands, floor):
    wave = wave_of(ops, rate, samples)
    size = max(4, 1 << (window - 1).bit_length())
    before = (size - window) // 2  # torch.stft centres the window in its frames
    padded = torch.nn.functional.pad(wave, (before, size - window - before))
    spectrum = torch.stft(
        padded,
        size,
        hop,
        window,
        torch.hann_window(window, dtype=torch.float64),
        center=False,
        return_complex=True,
    )
    energy = (spectrum.abs() ** 2).T @ filter_bank(rate, size, bands)
    ops.add(
        "log_mel",
        list(energy.shape),
        wave=wave,
        mel=energy.clamp(min=floor).log(),
        settings=torch.tensor([rate, window, hop, bands, floor], dtype=torch.float64),
    )


def main():
    ops = Ops()
    case(ops, 8000, 1600, 320, 160, 10, 1e-6)
    case(ops, 16000, 1200, 400, 160, 40, 1e-6)
    case(ops, 16000, 1024, 512, 200, 23, 1e-10)
    case(ops, 11025, 700, 275, 110, 13, 1e-3)
    case(ops, 44100, 900, 882, 441, 20, 1e-6)
    print(f"sound: {sum(ops.counts.values())} cases, {save('sound', ops.tensors)} bytes")


if __name__ == "__main__":
    main()
