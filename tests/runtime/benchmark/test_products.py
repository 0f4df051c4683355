"""The shapes that are measured."""

import pytest

from echo_npu.benchmark.products import ATTENTION, TRANSPOSED, Product, choose_products, load_products


def test_sets() -> None:
    sets = load_products()
    assert list(sets)[-2:] == [TRANSPOSED, ATTENTION]
    assert Product(1, 576, 1536) in sets["smollm2_135m_decode"]
    assert Product(512, 512, 512) in sets["square"]
    for name, products in sets.items():
        assert name == ATTENTION or all(product.batch == 1 for product in products)
        assert name == ATTENTION or all(product.trans_b == (name == TRANSPOSED) for product in products)


def test_attention_is_batches_of_scores_and_values() -> None:
    products = load_products()[ATTENTION]
    assert Product(128, 64, 128, batch=9, trans_b=True) in products
    assert Product(128, 128, 64, batch=9) in products
    assert {product.batch for product in products} == {9, 14}
    assert {product.m for product in products} == {16, 32, 64, 128}


def test_choice() -> None:
    chosen = choose_products()
    assert set(chosen.values()) == set(load_products()) - {ATTENTION, TRANSPOSED}
    assert set(chosen) == {each for name in chosen.values() for each in load_products()[name]}
    assert set(choose_products(["square", ATTENTION]).values()) == {"square", ATTENTION}
    with pytest.raises(ValueError, match="there is no set 'cube'; the sets are smollm2_135m_decode, "):
        choose_products(["cube"])


def test_names() -> None:
    assert str(Product(1, 2, 3)) == "1x2x3"
    assert str(Product(1, 2, 3, batch=4, trans_b=True)) == "4x1x2x3 nt"
    assert Product.parse("12x345x6") == Product(12, 345, 6)
    for text in ("1x2", "0x1x1", "1x2x3x4", "axbxc", "1x-2x3", ""):
        with pytest.raises(ValueError, match="it must be MxKxN"):
            Product.parse(text)


def test_kinds() -> None:
    assert Product(2, 3, 4, batch=5).macs == 120
    assert Product(64, 64, 64).macs == 1 << 18
    assert not Product(64, 64, 64).is_latency
    assert Product(64, 64, 63).is_latency
    assert not Product(16, 16, 16, batch=9).is_latency
    assert Product(1, 576, 192).is_decode
    assert not Product(1, 120, 84).is_decode
    assert not Product(2, 576, 192).is_decode
