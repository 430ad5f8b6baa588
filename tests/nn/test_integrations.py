"""Callbacks for the loops of others, and adapters of peft, with the packages if installed."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest

from crosslearning import Tether
from tests.support.networks import TaskModels, nn, scatter, torch, vectors

from crosslearning.nn.integrations import project_inside  # isort: skip

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")
TASKS = ("art", "clipart", "product")
foreign = pytest.mark.filterwarnings("ignore")  # of packages that are not ours


class Holder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.models = TaskModels(nn.Linear(4, 1), TASKS, **options)


def test_models_inside_a_module_are_projected_with_the_learning_rate():
    holder = Holder(tether=Tether(0.5, 1.0, 0.1))
    scatter(holder.models)
    alone = copy.deepcopy(holder.models)
    project_inside(holder, torch.optim.SGD(holder.parameters(), lr=0.2))
    alone.project(step_size=0.2)
    np.testing.assert_array_equal(vectors(holder.models)[0], vectors(alone)[0])
    project_inside(holder, torch.optim.SGD(holder.parameters(), lr=0.0))
    np.testing.assert_array_equal(vectors(holder.models)[0], vectors(alone)[0])
    with pytest.raises(ValueError, match="must contain TaskModels to project; Linear has none"):
        project_inside(nn.Linear(2, 1), None)


def plain_blocks():
    """Code of the page that is no doctest, by heading."""
    for part in re.split(r"^## ", PAGE, flags=re.M)[1:4]:
        blocks = re.findall(r"```python\n(.*?)```", part, flags=re.S)
        yield part.splitlines()[0], "\n".join(one for one in blocks if not one.startswith(">>>"))


@foreign
@pytest.mark.slow
@pytest.mark.parametrize(("title", "code"), [pair for pair in plain_blocks() if pair[1]])
def test_the_page_about_loops(title, code, tmp_path, monkeypatch):
    for package in ("pytorch_lightning", "transformers", "peft"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    exec(compile(code, title, "exec"), names)
    if "french" in names:
        texts, model = names["texts"], names["models"]["french"].eval()
        expected = model(input_ids=texts).logits
        assert torch.equal(names["french"].eval()(input_ids=texts).logits, expected)
        files = {path.name for path in Path("adapters/center").iterdir()}
        assert files >= {"adapter_model.safetensors", "adapter_config.json"}
        word = "base_model.model.bert.embeddings.word_embeddings.weight"
        shared = [module.get_parameter(word) for module in names["models"].per_task]
        assert all(one is shared[0] for one in shared)
        names["trainer"].save_model("saved")
        assert Path("saved/model.safetensors").exists()


@foreign
@pytest.mark.slow
def test_lightning_projects_after_steps_only_and_resumes(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")
    from torch.utils.data import DataLoader, TensorDataset

    from crosslearning.nn.integrations.lightning import Project

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.models = TaskModels(nn.Linear(4, 1), TASKS, epsilon=0.05)
            self.pulls = []

        def training_step(self, batch, _):
            self.pulls.append(self.models.state_dict()["_extra_state"].numel())
            terms = [(self.models[task](x) - y).square().mean() for task, (x, y) in batch.items()]
            return sum(terms)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    x = torch.randn(3, 8, 4, generator=torch.Generator().manual_seed(0))
    loaders = {
        task: DataLoader(TensorDataset(x[k], x[k].sum(1, keepdim=True) + k), batch_size=2)
        for k, task in enumerate(TASKS)
    }
    options = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    options |= {"accelerator": "cpu", "accumulate_grad_batches": 2, "default_root_dir": tmp_path}

    def train(epochs, path=None):
        module = Module()
        trainer = lightning.Trainer(max_epochs=epochs, callbacks=[Project()], **options)
        trainer.fit(module, loaders, ckpt_path=path)
        assert module.models.distances().max() <= 0.05 * 1.0001
        return module, trainer

    module, trainer = train(2)
    first = module.pulls[0]
    assert [size > first for size in module.pulls] == [False] * 2 + [True] * 6
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    resumed, _ = train(4, tmp_path / "half.ckpt")
    whole, _ = train(4)
    np.testing.assert_array_equal(vectors(resumed.models)[0], vectors(whole.models)[0])
    with pytest.raises(ValueError, match="must contain TaskModels"):
        Project().on_train_start(trainer, nn.Linear(2, 1))


@foreign
@pytest.mark.slow
def test_adapters_with_a_frozen_first_factor():
    peft = pytest.importorskip("peft")
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    module = peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["0", "2"]))
    (code,) = re.findall(r"```python\n(for name.*?lora_A.*?)```", PAGE, flags=re.S)
    exec(code, {"model": module, "nn": nn})
    models = TaskModels(module, TASKS, epsilon=0.1)
    assert all("lora_B" in name for name in models.blocks[0].parameters)
    scatter(models)
    models.project()
    changes = [one.base_model.model[0].get_delta_weight("default") for one in models.per_task]
    center = models.center.base_model.model[0].get_delta_weight("default")
    factors = [one.base_model.model[0].lora_B.default.weight for one in models.rows()]
    scale = models.center.base_model.model[0].scaling["default"]
    for change, factor in zip(changes, factors, strict=False):
        expected = scale * torch.dist(factor, factors[-1])
        torch.testing.assert_close(torch.dist(change, center), expected)
