# Owns the tests of vindex-serve, from its sources: a real server, real clients, a browser where there is one.
set(package ${PROJECT_SOURCE_DIR}/python)
set(serve_packages "pytest httpx fastapi uvicorn prometheus_client pyarrow h5py numpy")
set(serve_tests confine outside commands settings http jobs rows restart clients full_disk document page)
foreach(suite ${serve_tests})
  vindex_python_test(python.serve.${suite} PACKAGES "${serve_packages}"
    COMMAND -m pytest -c ${package}/pyproject.toml --rootdir ${package} -q -p no:cacheprovider
            --basetemp ${CMAKE_CURRENT_BINARY_DIR}/serve_${suite} ${package}/tests/serve/test_${suite}.py)
endforeach()
list(TRANSFORM serve_tests PREPEND python.serve.)
set_tests_properties(${serve_tests} PROPERTIES LABELS "package;long" WORKING_DIRECTORY ${package} TIMEOUT 900
  ENVIRONMENT "VINDEX_PROGRAM=$<TARGET_FILE:vindex>;PYTHONSAFEPATH=1;VINDEX_PACKAGE=${package}")
