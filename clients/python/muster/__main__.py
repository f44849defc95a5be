# SPDX-License-Identifier: Apache-2.0
import sys

from .worker import main

sys.exit(main())
