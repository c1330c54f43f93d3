# Sourced by what runs a test: variables of a shell that change what programs compute, print or reach are none of a test's.
unset COLUMNS LINES LANGUAGE NO_COLOR FORCE_COLOR PYTHONPATH PYTHONHOME PYTHONWARNINGS OPENBLAS_CORETYPE OPENBLAS_VERBOSE \
  OMP_NUM_THREADS http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
# One thread for numpy: tests run side by side, and OpenBLAS's threads wait for each other by spinning (eight times the processor time).
export LC_ALL=C.UTF-8 TZ=UTC OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
