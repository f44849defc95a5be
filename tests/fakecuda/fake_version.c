/* SPDX-License-Identifier: Apache-2.0 */
/* fake_version.c - which version of the driver this library is: all else is the same in each, but that they export
 * less. */
extern __attribute__((visibility("hidden"))) const int fake_version;
const int fake_version = FAKE_VERSION;
