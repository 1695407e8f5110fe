/* SPDX-License-Identifier: MIT
 * Names for the place where the head's vocabulary product runs.
 */
#ifndef TRAIN_HEAD_PLACE_H
#define TRAIN_HEAD_PLACE_H

#define PARTITION_HEAD_WORDS "auto|host|device"
typedef enum partition_head {
    PARTITION_HEAD_AUTO, /* the plan's default */
    PARTITION_HEAD_HOST,
    PARTITION_HEAD_DEVICE,
    PARTITION_HEAD_COUNT
} partition_head;

#endif
