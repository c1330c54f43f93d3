#!/usr/bin/env python3
"""scripts/compiler_checks.py on what ptxas and cuobjdump say: compiler_checks_test.py SCRIPT FOLDER."""
import importlib.util
import pathlib
import subprocess
import sys

script, folder = sys.argv[1], pathlib.Path(sys.argv[2])
spec = importlib.util.spec_from_file_location("compiler_checks", script)
checks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checks)


def said(name, stack, stores, loads, extra=""):
    return (f"ptxas info    : Compiling entry function '{name}' for 'sm_90a'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n{extra}"
            "ptxas info    : Used 40 registers, used 1 barriers, 400 bytes cmem[0]\n")


def complaints(text):
    place = folder / "kernels" / "some"
    place.mkdir(parents=True, exist_ok=True)
    (place / "one.cu.o.said").write_text(text)
    return checks.check_output(folder / "kernels")


assert complaints(said("sound", 0, 0, 0)) == ([], 1)
found, count = complaints(said("sound", 0, 0, 0) + said("spilt", 8, 4, 8))
assert count == 2 and len(found) == 1 and "8 bytes of stack, 4 + 8 of spills: spilt" in found[0], found
# A kernel of the table may have what stands there, and no more.
panel = "_ZN6vindex7kernels12_GLOBAL__N_119factor_panel_kernelIfLi16ELi2EEEvNS0_5PanelIT_EE"
assert checks.demangled(["sound"]) == ["sound"]
if "factor_panel_kernel<float, 16, 2>" in checks.demangled([panel])[0]:
    assert complaints(said(panel, 296, 288, 288))[0] == []
    assert len(complaints(said(panel, 400, 288, 288))[0]) == 1
serial = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x\n"
found, _ = complaints(said("sound", 0, 0, 0, serial))
assert len(found) == 1 and found[0].startswith("one.cu: (C7510)"), found

sass = """
	Function : product
        /*0010*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], RZ, !UPT ;
        /*0020*/                   IADD3 R4, R5, 0x1, RZ ;
        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0040*/                   FADD R24, R24, R25 ;
	Function : none
        /*0010*/                   FADD R24, R24, R25 ;
"""
assert checks.early_touches(sass) == [("product", 1, [])]
early = sass.replace("IADD3 R4, R5", "IADD3 R4, R87")
assert checks.early_touches(early) == [("product", 1, ["IADD3 R4, R87, 0x1, RZ"])]
assert checks.early_touches(early.replace("HGMMA.64x128x16.F32", "IGMMA.64x128x32.S8.S8"))[0][2] != []

# As it is called: 2 where nothing was built, 1 with a complaint.
run = lambda where: subprocess.run([sys.executable, script, str(where)], capture_output=True, text=True)
assert run(folder / "absent").returncode == 2
ended = run(folder)
assert ended.returncode == 1 and "C7510" in ended.stderr, ended
