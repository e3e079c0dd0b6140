# annblock: see README.md. All output goes to build/.
